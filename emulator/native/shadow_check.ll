; Made from shadow_check.py by `python -m bench.checks`.

define i32 @read(i64 %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5, i64 %6, i64 %7) {
  %9 = inttoptr i64 %0 to ptr
  %10 = load i64, ptr %9, align 8
  %11 = inttoptr i64 %10 to ptr
  %12 = getelementptr i8, ptr %9, i64 8
  %13 = load i64, ptr %12, align 8
  %14 = inttoptr i64 %13 to ptr
  %15 = getelementptr i8, ptr %9, i64 32
  %16 = load i64, ptr %15, align 8
  %17 = inttoptr i64 %16 to ptr
  %18 = load i64, ptr %17, align 8
  %19 = inttoptr i64 %18 to ptr
  %20 = getelementptr i8, ptr %9, i64 40
  %21 = load i64, ptr %20, align 8
  %22 = inttoptr i64 %21 to ptr
  %23 = icmp eq i64 %21, 0
  %24 = inttoptr i64 %1 to ptr
  %25 = getelementptr i8, ptr %24, i64 24
  %26 = load i64, ptr %25, align 8
  %27 = icmp slt i64 %26, 1
  br i1 %27, label %256, label %28

28:
  %29 = getelementptr i8, ptr %24, i64 8
  %30 = load i64, ptr %29, align 8
  %31 = icmp eq i64 %30, 0
  %32 = inttoptr i64 %30 to ptr
  %33 = getelementptr i8, ptr %24, i64 16
  %34 = getelementptr i8, ptr %24, i64 32
  %35 = load i64, ptr %34, align 8
  %36 = and i64 %5, 1
  %37 = inttoptr i64 %2 to ptr
  %38 = icmp eq i64 %6, 0
  %39 = icmp sgt i64 %35, 0
  br label %148

40:
  %41 = getelementptr i8, ptr %24, i64 8
  %42 = getelementptr i8, ptr %24, i64 16
  %43 = getelementptr i8, ptr %24, i64 32
  %44 = getelementptr i8, ptr %24, i64 40
  %45 = getelementptr i8, ptr %9, i64 24
  %46 = icmp eq i64 %5, 0
  br label %191

47:
  %48 = phi i64 [ %67, %66 ], [ %139, %136 ]
  %49 = sub nsw i64 %163, %48
  %50 = icmp sgt i64 %49, 7
  br i1 %50, label %51, label %69

51:
  %52 = getelementptr i32, ptr %14, i64 %48
  %53 = load <8 x i32>, ptr %52, align 4
  %54 = getelementptr i32, ptr %11, i64 %48
  %55 = load <8 x i32>, ptr %54, align 4
  %56 = icmp ne <8 x i32> %55, %141
  %57 = icmp ne <8 x i32> %53, %143
  %58 = or <8 x i1> %56, %57
  %59 = bitcast <8 x i1> %58 to i8
  %60 = icmp eq i8 %59, 0
  br i1 %60, label %61, label %69

61:
  br i1 %23, label %66, label %62

62:
  %63 = getelementptr i8, ptr %22, i64 %48
  %64 = load i64, ptr %63, align 1
  %65 = icmp eq i64 %64, 0
  br i1 %65, label %66, label %70

66:
  %67 = add nsw i64 %48, 8
  %68 = icmp slt i64 %67, %163
  br i1 %68, label %47, label %144

69:
  br i1 %23, label %74, label %70

70:
  %71 = getelementptr i8, ptr %22, i64 %48
  %72 = load i8, ptr %71, align 1
  %73 = icmp eq i8 %72, 0
  br i1 %73, label %74, label %256

74:
  %75 = getelementptr i32, ptr %11, i64 %48
  %76 = load i32, ptr %75, align 4
  %77 = icmp eq i32 %76, %137
  br i1 %77, label %109, label %78

78:
  %79 = sext i32 %76 to i64
  %80 = getelementptr i64, ptr %19, i64 %79
  %81 = load i64, ptr %80, align 8
  %82 = lshr i64 %81, 24
  %83 = and i64 %82, 4095
  %84 = icmp slt i64 %83, %3
  br i1 %84, label %88, label %85

85:
  %86 = lshr i64 %81, 1
  %87 = and i64 %86, 8388607
  br label %98

88:
  %89 = and i64 %36, %81
  %90 = mul nuw nsw i64 %89, %3
  %91 = getelementptr i64, ptr %37, i64 %90
  %92 = getelementptr i64, ptr %91, i64 %83
  %93 = load i64, ptr %92, align 8
  %94 = ashr i64 %81, 36
  %95 = icmp slt i64 %93, %94
  %96 = lshr i64 %81, 1
  %97 = and i64 %96, 8388607
  br i1 %95, label %98, label %103

98:
  %99 = phi i64 [ %87, %85 ], [ %97, %88 ]
  %100 = icmp ne i64 %83, %4
  %101 = icmp eq i64 %81, 9223371968135299072
  %102 = or i1 %101, %100
  br i1 %102, label %256, label %103

103:
  %104 = phi i64 [ %99, %98 ], [ %97, %88 ]
  %105 = icmp eq i64 %104, 0
  %106 = icmp eq i64 %104, %6
  %107 = or i1 %38, %106
  %108 = select i1 %105, i1 true, i1 %107
  br i1 %108, label %109, label %256

109:
  %110 = phi i32 [ %76, %103 ], [ %137, %74 ]
  %111 = getelementptr i32, ptr %14, i64 %48
  %112 = load i32, ptr %111, align 4
  %113 = icmp eq i32 %112, %138
  br i1 %113, label %132, label %114

114:
  %115 = icmp eq i32 %112, 0
  br i1 %115, label %132, label %116

116:
  %117 = sext i32 %112 to i64
  %118 = getelementptr i64, ptr %19, i64 %117
  %119 = load i64, ptr %118, align 8
  %120 = lshr i64 %119, 24
  %121 = and i64 %120, 4095
  %122 = icmp slt i64 %121, %3
  br i1 %122, label %123, label %128

123:
  %124 = getelementptr i64, ptr %37, i64 %121
  %125 = load i64, ptr %124, align 8
  %126 = ashr i64 %119, 36
  %127 = icmp slt i64 %125, %126
  br i1 %127, label %128, label %132

128:
  %129 = icmp ne i64 %121, %4
  %130 = icmp eq i64 %119, 9223371968135299072
  %131 = or i1 %130, %129
  br i1 %131, label %256, label %132

132:
  %133 = phi i32 [ %138, %109 ], [ 0, %114 ], [ %112, %123 ], [ %112, %128 ]
  %134 = add nsw i64 %48, 1
  %135 = icmp slt i64 %134, %163
  br i1 %135, label %136, label %144

136:
  %137 = phi i32 [ %110, %132 ], [ %150, %161 ]
  %138 = phi i32 [ %133, %132 ], [ %149, %161 ]
  %139 = phi i64 [ %134, %132 ], [ %162, %161 ]
  %140 = insertelement <8 x i32> poison, i32 %137, i64 0
  %141 = shufflevector <8 x i32> %140, <8 x i32> poison, <8 x i32> zeroinitializer
  %142 = insertelement <8 x i32> poison, i32 %138, i64 0
  %143 = shufflevector <8 x i32> %142, <8 x i32> poison, <8 x i32> zeroinitializer
  br label %47

144:
  %145 = phi i32 [ %150, %161 ], [ %137, %66 ], [ %110, %132 ]
  %146 = phi i32 [ %149, %161 ], [ %138, %66 ], [ %133, %132 ]
  %147 = icmp eq i64 %26, %152
  br i1 %147, label %40, label %148

148:
  %149 = phi i32 [ -1, %28 ], [ %146, %144 ]
  %150 = phi i32 [ -1, %28 ], [ %145, %144 ]
  %151 = phi i64 [ 0, %28 ], [ %152, %144 ]
  %152 = add nuw nsw i64 %151, 1
  br i1 %31, label %156, label %153

153:
  %154 = getelementptr i64, ptr %32, i64 %151
  %155 = load i64, ptr %154, align 8
  br label %161

156:
  %157 = load i64, ptr %24, align 8
  %158 = load i64, ptr %33, align 8
  %159 = mul nsw i64 %158, %151
  %160 = add nsw i64 %159, %157
  br label %161

161:
  %162 = phi i64 [ %160, %156 ], [ %155, %153 ]
  %163 = add nsw i64 %35, %162
  br i1 %39, label %136, label %144

164:
  %165 = inttoptr i64 %245 to ptr
  %166 = icmp slt i64 %207, 8
  br i1 %166, label %179, label %167

167:
  %168 = and i64 %214, 9223372036854775800
  %169 = add i64 %206, %168
  %170 = and i64 %214, 7
  %171 = getelementptr i32, ptr %165, i64 %206
  br label %172

172:
  %173 = phi i64 [ 0, %167 ], [ %175, %172 ]
  %174 = getelementptr i32, ptr %171, i64 %173
  store <8 x i32> zeroinitializer, ptr %174, align 4
  %175 = add nuw i64 %173, 8
  %176 = icmp eq i64 %175, %168
  br i1 %176, label %177, label %172

177:
  %178 = icmp eq i64 %207, %168
  br i1 %178, label %189, label %179

179:
  %180 = phi i64 [ %206, %164 ], [ %169, %177 ]
  %181 = phi i64 [ %214, %164 ], [ %170, %177 ]
  br label %182

182:
  %183 = phi i64 [ %186, %182 ], [ %180, %179 ]
  %184 = phi i64 [ %185, %182 ], [ %181, %179 ]
  %185 = add nsw i64 %184, -1
  %186 = add i64 %183, 1
  %187 = getelementptr i32, ptr %165, i64 %183
  store i32 0, ptr %187, align 4
  %188 = icmp ugt i64 %184, 1
  br i1 %188, label %182, label %189

189:
  %190 = icmp eq i64 %26, %193
  br i1 %190, label %256, label %191

191:
  %192 = phi i64 [ 0, %40 ], [ %193, %189 ]
  %193 = add nuw nsw i64 %192, 1
  %194 = load i64, ptr %41, align 8
  %195 = icmp eq i64 %194, 0
  br i1 %195, label %200, label %196

196:
  %197 = inttoptr i64 %194 to ptr
  %198 = getelementptr i64, ptr %197, i64 %192
  %199 = load i64, ptr %198, align 8
  br label %205

200:
  %201 = load i64, ptr %24, align 8
  %202 = load i64, ptr %42, align 8
  %203 = mul nsw i64 %202, %192
  %204 = add nsw i64 %203, %201
  br label %205

205:
  %206 = phi i64 [ %204, %200 ], [ %199, %196 ]
  %207 = load i64, ptr %43, align 8
  %208 = load i64, ptr %12, align 8
  %209 = inttoptr i64 %208 to ptr
  %210 = load i64, ptr %44, align 8
  %211 = icmp eq i64 %210, 0
  br i1 %211, label %212, label %248

212:
  %213 = phi i64 [ 0, %205 ], [ %255, %248 ]
  %214 = tail call i64 @llvm.smax.i64(i64 %207, i64 0)
  %215 = icmp slt i64 %207, 1
  br i1 %215, label %189, label %216

216:
  %217 = add nsw i64 %213, %7
  %218 = trunc i64 %217 to i32
  %219 = icmp slt i64 %207, 8
  br i1 %219, label %234, label %220

220:
  %221 = and i64 %214, 9223372036854775800
  %222 = add i64 %206, %221
  %223 = and i64 %214, 7
  %224 = insertelement <8 x i32> poison, i32 %218, i64 0
  %225 = shufflevector <8 x i32> %224, <8 x i32> poison, <8 x i32> zeroinitializer
  %226 = getelementptr i32, ptr %209, i64 %206
  br label %227

227:
  %228 = phi i64 [ 0, %220 ], [ %230, %227 ]
  %229 = getelementptr i32, ptr %226, i64 %228
  store <8 x i32> %225, ptr %229, align 4
  %230 = add nuw i64 %228, 8
  %231 = icmp eq i64 %230, %221
  br i1 %231, label %232, label %227

232:
  %233 = icmp eq i64 %207, %221
  br i1 %233, label %244, label %234

234:
  %235 = phi i64 [ %206, %216 ], [ %222, %232 ]
  %236 = phi i64 [ %214, %216 ], [ %223, %232 ]
  br label %237

237:
  %238 = phi i64 [ %241, %237 ], [ %235, %234 ]
  %239 = phi i64 [ %240, %237 ], [ %236, %234 ]
  %240 = add nsw i64 %239, -1
  %241 = add i64 %238, 1
  %242 = getelementptr i32, ptr %209, i64 %238
  store i32 %218, ptr %242, align 4
  %243 = icmp ugt i64 %239, 1
  br i1 %243, label %237, label %244

244:
  %245 = load i64, ptr %45, align 8
  %246 = icmp ne i64 %245, 0
  %247 = select i1 %246, i1 %46, i1 false
  br i1 %247, label %164, label %189

248:
  %249 = sdiv i64 %192, %210
  %250 = srem i64 %192, %210
  %251 = icmp slt i64 %210, 0
  %252 = icmp ne i64 %250, 0
  %253 = and i1 %252, %251
  %254 = sext i1 %253 to i64
  %255 = add i64 %249, %254
  br label %212

256:
  %257 = phi i32 [ 1, %8 ], [ 1, %189 ], [ 0, %103 ], [ 2, %70 ], [ 0, %128 ], [ 0, %98 ]
  ret i32 %257
}

define internal fastcc void @0(ptr noalias nonnull writeonly %0, ptr %1, ptr %2, i32 %3) {
  %5 = load i64, ptr %2, align 8
  %6 = tail call i64 @llvm.smax.i64(i64 %5, i64 0)
  br label %7

7:
  %8 = phi i64 [ 0, %4 ], [ %19, %18 ]
  %9 = icmp eq i64 %8, %6
  br i1 %9, label %12, label %18

10:
  %11 = phi i64 [ %16, %14 ], [ -1, %12 ], [ %8, %18 ]
  store i64 %11, ptr %0, align 8
  ret void

12:
  %13 = icmp eq i64 %5, 64
  br i1 %13, label %10, label %14

14:
  %15 = getelementptr i32, ptr %1, i64 %5
  store i32 %3, ptr %15, align 4
  %16 = load i64, ptr %2, align 8
  %17 = add nsw i64 %16, 1
  store i64 %17, ptr %2, align 8
  br label %10

18:
  %19 = add nuw i64 %8, 1
  %20 = getelementptr i32, ptr %1, i64 %8
  %21 = load i32, ptr %20, align 4
  %22 = icmp eq i32 %21, %3
  br i1 %22, label %10, label %7
}

define i32 @write(i64 %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5, i64 %6, i64 %7) {
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = inttoptr i64 %0 to ptr
  %12 = inttoptr i64 %1 to ptr
  %13 = getelementptr i8, ptr %12, i64 40
  %14 = load i64, ptr %13, align 8
  %15 = load i64, ptr %11, align 8
  %16 = inttoptr i64 %15 to ptr
  %17 = getelementptr i8, ptr %11, i64 8
  %18 = load i64, ptr %17, align 8
  %19 = inttoptr i64 %18 to ptr
  %20 = getelementptr i8, ptr %11, i64 32
  %21 = load i64, ptr %20, align 8
  %22 = inttoptr i64 %21 to ptr
  %23 = load i64, ptr %22, align 8
  %24 = inttoptr i64 %23 to ptr
  %25 = getelementptr i8, ptr %11, i64 40
  %26 = load i64, ptr %25, align 8
  %27 = inttoptr i64 %26 to ptr
  %28 = icmp eq i64 %26, 0
  %29 = getelementptr i8, ptr %12, i64 24
  %30 = load i64, ptr %29, align 8
  %31 = icmp slt i64 %30, 1
  br i1 %31, label %373, label %32

32:
  %33 = add nsw i64 %0, 576
  %34 = icmp eq i64 %14, 0
  %35 = getelementptr i8, ptr %12, i64 8
  %36 = getelementptr i8, ptr %12, i64 16
  %37 = getelementptr i8, ptr %12, i64 32
  %38 = and i64 %5, 1
  %39 = inttoptr i64 %2 to ptr
  %40 = icmp eq i64 %6, 0
  %41 = icmp slt i64 %14, 0
  %42 = tail call i64 @llvm.smin.i64(i64 %14, i64 0)
  br label %185

43:
  %44 = phi i64 [ %33, %185 ], [ %198, %190 ]
  %45 = inttoptr i64 %44 to ptr
  store i64 0, ptr %45, align 8
  %46 = add nsw i64 %44, 264
  %47 = inttoptr i64 %46 to ptr
  store i64 0, ptr %47, align 8
  br label %48

48:
  %49 = phi i64 [ %44, %43 ], [ %198, %190 ]
  %50 = phi i32 [ -1, %43 ], [ %187, %190 ]
  %51 = phi i32 [ -1, %43 ], [ %186, %190 ]
  %52 = load i64, ptr %35, align 8
  %53 = icmp eq i64 %52, 0
  br i1 %53, label %58, label %54

54:
  %55 = inttoptr i64 %52 to ptr
  %56 = getelementptr i64, ptr %55, i64 %188
  %57 = load i64, ptr %56, align 8
  br label %63

58:
  %59 = load i64, ptr %12, align 8
  %60 = load i64, ptr %36, align 8
  %61 = mul nsw i64 %60, %188
  %62 = add nsw i64 %61, %59
  br label %63

63:
  %64 = phi i64 [ %62, %58 ], [ %57, %54 ]
  %65 = load i64, ptr %37, align 8
  %66 = add nsw i64 %65, %64
  %67 = icmp sgt i64 %65, 0
  br i1 %67, label %68, label %181

68:
  %69 = add nsw i64 %49, 8
  %70 = inttoptr i64 %69 to ptr
  %71 = inttoptr i64 %49 to ptr
  %72 = add nsw i64 %49, 264
  %73 = add nsw i64 %49, 272
  %74 = inttoptr i64 %73 to ptr
  %75 = inttoptr i64 %72 to ptr
  br label %76

76:
  %77 = phi i32 [ %50, %68 ], [ %152, %177 ]
  %78 = phi i32 [ %51, %68 ], [ %178, %177 ]
  %79 = phi i64 [ %64, %68 ], [ %179, %177 ]
  %80 = insertelement <8 x i32> poison, i32 %77, i64 0
  %81 = shufflevector <8 x i32> %80, <8 x i32> poison, <8 x i32> zeroinitializer
  %82 = insertelement <8 x i32> poison, i32 %78, i64 0
  %83 = shufflevector <8 x i32> %82, <8 x i32> poison, <8 x i32> zeroinitializer
  br label %84

84:
  %85 = phi i64 [ %104, %103 ], [ %79, %76 ]
  %86 = sub nsw i64 %66, %85
  %87 = icmp sgt i64 %86, 7
  br i1 %87, label %88, label %106

88:
  %89 = getelementptr i32, ptr %19, i64 %85
  %90 = load <8 x i32>, ptr %89, align 4
  %91 = getelementptr i32, ptr %16, i64 %85
  %92 = load <8 x i32>, ptr %91, align 4
  %93 = icmp ne <8 x i32> %92, %81
  %94 = icmp ne <8 x i32> %90, %83
  %95 = or <8 x i1> %93, %94
  %96 = bitcast <8 x i1> %95 to i8
  %97 = icmp eq i8 %96, 0
  br i1 %97, label %98, label %106

98:
  br i1 %28, label %103, label %99

99:
  %100 = getelementptr i8, ptr %27, i64 %85
  %101 = load i64, ptr %100, align 1
  %102 = icmp eq i64 %101, 0
  br i1 %102, label %103, label %107

103:
  %104 = add nsw i64 %85, 8
  %105 = icmp slt i64 %104, %66
  br i1 %105, label %84, label %181

106:
  br i1 %28, label %111, label %107

107:
  %108 = getelementptr i8, ptr %27, i64 %85
  %109 = load i8, ptr %108, align 1
  %110 = icmp eq i8 %109, 0
  br i1 %110, label %111, label %373

111:
  %112 = getelementptr i32, ptr %16, i64 %85
  %113 = load i32, ptr %112, align 4
  %114 = icmp eq i32 %113, %77
  br i1 %114, label %151, label %115

115:
  %116 = icmp eq i32 %113, 0
  br i1 %116, label %148, label %117

117:
  %118 = sext i32 %113 to i64
  %119 = getelementptr i64, ptr %24, i64 %118
  %120 = load i64, ptr %119, align 8
  %121 = lshr i64 %120, 24
  %122 = and i64 %121, 4095
  %123 = icmp slt i64 %122, %3
  br i1 %123, label %127, label %124

124:
  %125 = lshr i64 %120, 1
  %126 = and i64 %125, 8388607
  br label %137

127:
  %128 = and i64 %38, %120
  %129 = mul nuw nsw i64 %128, %3
  %130 = getelementptr i64, ptr %39, i64 %129
  %131 = getelementptr i64, ptr %130, i64 %122
  %132 = load i64, ptr %131, align 8
  %133 = ashr i64 %120, 36
  %134 = icmp slt i64 %132, %133
  %135 = lshr i64 %120, 1
  %136 = and i64 %135, 8388607
  br i1 %134, label %137, label %142

137:
  %138 = phi i64 [ %126, %124 ], [ %136, %127 ]
  %139 = icmp ne i64 %122, %4
  %140 = icmp eq i64 %120, 9223371968135299072
  %141 = or i1 %140, %139
  br i1 %141, label %373, label %142

142:
  %143 = phi i64 [ %138, %137 ], [ %136, %127 ]
  %144 = icmp eq i64 %143, 0
  %145 = icmp eq i64 %143, %6
  %146 = or i1 %40, %145
  %147 = select i1 %144, i1 true, i1 %146
  br i1 %147, label %148, label %373

148:
  call void @llvm.lifetime.start.p0(ptr nonnull %9)
  store i64 0, ptr %9, align 8
  call fastcc void @0(ptr %9, ptr %70, ptr %71, i32 %113)
  %149 = load i64, ptr %9, align 8
  %150 = icmp slt i64 %149, 0
  call void @llvm.lifetime.end.p0(ptr nonnull %9)
  br i1 %150, label %373, label %151

151:
  %152 = phi i32 [ %113, %148 ], [ %77, %111 ]
  %153 = getelementptr i32, ptr %19, i64 %85
  %154 = load i32, ptr %153, align 4
  %155 = icmp eq i32 %154, %78
  br i1 %155, label %177, label %156

156:
  %157 = icmp eq i32 %154, 0
  br i1 %157, label %174, label %158

158:
  %159 = sext i32 %154 to i64
  %160 = getelementptr i64, ptr %24, i64 %159
  %161 = load i64, ptr %160, align 8
  %162 = lshr i64 %161, 24
  %163 = and i64 %162, 4095
  %164 = icmp slt i64 %163, %3
  br i1 %164, label %165, label %170

165:
  %166 = getelementptr i64, ptr %39, i64 %163
  %167 = load i64, ptr %166, align 8
  %168 = ashr i64 %161, 36
  %169 = icmp slt i64 %167, %168
  br i1 %169, label %170, label %174

170:
  %171 = icmp ne i64 %163, %4
  %172 = icmp eq i64 %161, 9223371968135299072
  %173 = or i1 %172, %171
  br i1 %173, label %373, label %174

174:
  call void @llvm.lifetime.start.p0(ptr nonnull %10)
  store i64 0, ptr %10, align 8
  call fastcc void @0(ptr %10, ptr %74, ptr %75, i32 %154)
  %175 = load i64, ptr %10, align 8
  %176 = icmp slt i64 %175, 0
  call void @llvm.lifetime.end.p0(ptr nonnull %10)
  br i1 %176, label %373, label %177

177:
  %178 = phi i32 [ %154, %174 ], [ %78, %151 ]
  %179 = add nsw i64 %85, 1
  %180 = icmp slt i64 %179, %66
  br i1 %180, label %76, label %181

181:
  %182 = phi i32 [ %50, %63 ], [ %77, %103 ], [ %152, %177 ]
  %183 = phi i32 [ %51, %63 ], [ %78, %103 ], [ %178, %177 ]
  %184 = icmp eq i64 %189, %30
  br i1 %184, label %204, label %185

185:
  %186 = phi i32 [ -1, %32 ], [ %183, %181 ]
  %187 = phi i32 [ -1, %32 ], [ %182, %181 ]
  %188 = phi i64 [ 0, %32 ], [ %189, %181 ]
  %189 = add nuw nsw i64 %188, 1
  br i1 %34, label %43, label %190

190:
  %191 = sdiv i64 %188, %14
  %192 = srem i64 %188, %14
  %193 = icmp ne i64 %192, 0
  %194 = and i1 %193, %41
  %195 = sext i1 %194 to i64
  %196 = add i64 %191, %195
  %197 = mul nsw i64 %196, 528
  %198 = add nsw i64 %197, %33
  %199 = srem i64 %188, %14
  %200 = icmp eq i64 %199, 0
  %201 = select i1 %200, i64 0, i64 %42
  %202 = sub i64 0, %201
  %203 = icmp eq i64 %199, %202
  br i1 %203, label %43, label %48

204:
  %205 = load i64, ptr %20, align 8
  %206 = inttoptr i64 %205 to ptr
  %207 = load i64, ptr %206, align 8
  %208 = load i64, ptr %29, align 8
  %209 = inttoptr i64 %207 to ptr
  %210 = getelementptr i64, ptr %209, i64 %7
  %211 = load i64, ptr %210, align 8
  %212 = icmp eq i64 %211, 9223371968135299072
  %213 = and i64 %211, -16777216
  %214 = or disjoint i64 %213, 32
  %215 = select i1 %212, i64 9223371968135299072, i64 %214
  %216 = icmp slt i64 %208, 1
  br i1 %216, label %373, label %217

217:
  %218 = getelementptr i8, ptr %12, i64 8
  %219 = getelementptr i8, ptr %12, i64 16
  %220 = getelementptr i8, ptr %12, i64 32
  %221 = getelementptr i8, ptr %11, i64 16
  %222 = icmp eq i64 %5, 0
  %223 = getelementptr i8, ptr %11, i64 48
  %224 = insertelement <4 x i64> poison, i64 %215, i64 0
  %225 = shufflevector <4 x i64> %224, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %282

226:
  %227 = inttoptr i64 %362 to ptr
  %228 = icmp slt i64 %302, 8
  br i1 %228, label %241, label %229

229:
  %230 = and i64 %305, 9223372036854775800
  %231 = add i64 %297, %230
  %232 = and i64 %305, 7
  %233 = getelementptr i32, ptr %227, i64 %297
  br label %234

234:
  %235 = phi i64 [ 0, %229 ], [ %237, %234 ]
  %236 = getelementptr i32, ptr %233, i64 %235
  store <8 x i32> zeroinitializer, ptr %236, align 4
  %237 = add nuw i64 %235, 8
  %238 = icmp eq i64 %237, %230
  br i1 %238, label %239, label %234

239:
  %240 = icmp eq i64 %302, %230
  br i1 %240, label %251, label %241

241:
  %242 = phi i64 [ %297, %226 ], [ %231, %239 ]
  %243 = phi i64 [ %305, %226 ], [ %232, %239 ]
  br label %244

244:
  %245 = phi i64 [ %248, %244 ], [ %242, %241 ]
  %246 = phi i64 [ %247, %244 ], [ %243, %241 ]
  %247 = add nsw i64 %246, -1
  %248 = add i64 %245, 1
  %249 = getelementptr i32, ptr %227, i64 %245
  store i32 0, ptr %249, align 4
  %250 = icmp ugt i64 %246, 1
  br i1 %250, label %244, label %251

251:
  %252 = load i64, ptr %223, align 8
  %253 = icmp eq i64 %252, 0
  br i1 %253, label %280, label %254

254:
  %255 = inttoptr i64 %252 to ptr
  br i1 %306, label %280, label %256

256:
  %257 = icmp slt i64 %302, 4
  br i1 %257, label %270, label %258

258:
  %259 = and i64 %305, 9223372036854775804
  %260 = add i64 %297, %259
  %261 = and i64 %305, 3
  %262 = getelementptr i64, ptr %255, i64 %297
  br label %263

263:
  %264 = phi i64 [ 0, %258 ], [ %266, %263 ]
  %265 = getelementptr i64, ptr %262, i64 %264
  store <4 x i64> %225, ptr %265, align 8
  %266 = add nuw i64 %264, 4
  %267 = icmp eq i64 %266, %259
  br i1 %267, label %268, label %263

268:
  %269 = icmp eq i64 %302, %259
  br i1 %269, label %280, label %270

270:
  %271 = phi i64 [ %297, %256 ], [ %260, %268 ]
  %272 = phi i64 [ %305, %256 ], [ %261, %268 ]
  br label %273

273:
  %274 = phi i64 [ %277, %273 ], [ %271, %270 ]
  %275 = phi i64 [ %276, %273 ], [ %272, %270 ]
  %276 = add nsw i64 %275, -1
  %277 = add i64 %274, 1
  %278 = getelementptr i64, ptr %255, i64 %274
  store i64 %215, ptr %278, align 8
  %279 = icmp ugt i64 %275, 1
  br i1 %279, label %273, label %280

280:
  %281 = icmp eq i64 %284, %208
  br i1 %281, label %373, label %282

282:
  %283 = phi i64 [ 0, %217 ], [ %284, %280 ]
  %284 = add nuw nsw i64 %283, 1
  %285 = load i64, ptr %218, align 8
  %286 = icmp eq i64 %285, 0
  br i1 %286, label %291, label %287

287:
  %288 = inttoptr i64 %285 to ptr
  %289 = getelementptr i64, ptr %288, i64 %283
  %290 = load i64, ptr %289, align 8
  br label %296

291:
  %292 = load i64, ptr %12, align 8
  %293 = load i64, ptr %219, align 8
  %294 = mul nsw i64 %293, %283
  %295 = add nsw i64 %294, %292
  br label %296

296:
  %297 = phi i64 [ %295, %291 ], [ %290, %287 ]
  %298 = load i64, ptr %13, align 8
  %299 = icmp eq i64 %298, 0
  br i1 %299, label %300, label %365

300:
  %301 = phi i64 [ 0, %296 ], [ %372, %365 ]
  %302 = load i64, ptr %220, align 8
  %303 = load i64, ptr %11, align 8
  %304 = inttoptr i64 %303 to ptr
  %305 = tail call i64 @llvm.smax.i64(i64 %302, i64 0)
  %306 = icmp slt i64 %302, 1
  br i1 %306, label %251, label %307

307:
  %308 = add nsw i64 %301, %7
  %309 = trunc i64 %308 to i32
  %310 = icmp slt i64 %302, 8
  br i1 %310, label %325, label %311

311:
  %312 = and i64 %305, 9223372036854775800
  %313 = add i64 %297, %312
  %314 = and i64 %305, 7
  %315 = insertelement <8 x i32> poison, i32 %309, i64 0
  %316 = shufflevector <8 x i32> %315, <8 x i32> poison, <8 x i32> zeroinitializer
  %317 = getelementptr i32, ptr %304, i64 %297
  br label %318

318:
  %319 = phi i64 [ 0, %311 ], [ %321, %318 ]
  %320 = getelementptr i32, ptr %317, i64 %319
  store <8 x i32> %316, ptr %320, align 4
  %321 = add nuw i64 %319, 8
  %322 = icmp eq i64 %321, %312
  br i1 %322, label %323, label %318

323:
  %324 = icmp eq i64 %302, %312
  br i1 %324, label %335, label %325

325:
  %326 = phi i64 [ %297, %307 ], [ %313, %323 ]
  %327 = phi i64 [ %305, %307 ], [ %314, %323 ]
  br label %328

328:
  %329 = phi i64 [ %332, %328 ], [ %326, %325 ]
  %330 = phi i64 [ %331, %328 ], [ %327, %325 ]
  %331 = add nsw i64 %330, -1
  %332 = add i64 %329, 1
  %333 = getelementptr i32, ptr %304, i64 %329
  store i32 %309, ptr %333, align 4
  %334 = icmp ugt i64 %330, 1
  br i1 %334, label %328, label %335

335:
  %336 = load i64, ptr %17, align 8
  %337 = inttoptr i64 %336 to ptr
  %338 = icmp slt i64 %302, 8
  br i1 %338, label %351, label %339

339:
  %340 = and i64 %305, 9223372036854775800
  %341 = add i64 %297, %340
  %342 = and i64 %305, 7
  %343 = getelementptr i32, ptr %337, i64 %297
  br label %344

344:
  %345 = phi i64 [ 0, %339 ], [ %347, %344 ]
  %346 = getelementptr i32, ptr %343, i64 %345
  store <8 x i32> zeroinitializer, ptr %346, align 4
  %347 = add nuw i64 %345, 8
  %348 = icmp eq i64 %347, %340
  br i1 %348, label %349, label %344

349:
  %350 = icmp eq i64 %302, %340
  br i1 %350, label %361, label %351

351:
  %352 = phi i64 [ %297, %335 ], [ %341, %349 ]
  %353 = phi i64 [ %305, %335 ], [ %342, %349 ]
  br label %354

354:
  %355 = phi i64 [ %358, %354 ], [ %352, %351 ]
  %356 = phi i64 [ %357, %354 ], [ %353, %351 ]
  %357 = add nsw i64 %356, -1
  %358 = add i64 %355, 1
  %359 = getelementptr i32, ptr %337, i64 %355
  store i32 0, ptr %359, align 4
  %360 = icmp ugt i64 %356, 1
  br i1 %360, label %354, label %361

361:
  %362 = load i64, ptr %221, align 8
  %363 = icmp ne i64 %362, 0
  %364 = select i1 %363, i1 %222, i1 false
  br i1 %364, label %226, label %251

365:
  %366 = sdiv i64 %283, %298
  %367 = srem i64 %283, %298
  %368 = icmp slt i64 %298, 0
  %369 = icmp ne i64 %367, 0
  %370 = and i1 %369, %368
  %371 = sext i1 %370 to i64
  %372 = add i64 %366, %371
  br label %300

373:
  %374 = phi i32 [ 1, %204 ], [ 1, %280 ], [ 1, %8 ], [ 0, %148 ], [ 0, %142 ], [ 2, %107 ], [ 0, %174 ], [ 0, %170 ], [ 0, %137 ]
  ret i32 %374
}

define internal fastcc void @1(ptr noalias nonnull writeonly %0, ptr %1, ptr %2, i64 %3) {
  %5 = load i64, ptr %2, align 8
  %6 = tail call i64 @llvm.smax.i64(i64 %5, i64 0)
  br label %7

7:
  %8 = phi i64 [ 0, %4 ], [ %19, %18 ]
  %9 = icmp eq i64 %8, %6
  br i1 %9, label %12, label %18

10:
  %11 = phi i64 [ %16, %14 ], [ -1, %12 ], [ %8, %18 ]
  store i64 %11, ptr %0, align 8
  ret void

12:
  %13 = icmp eq i64 %5, 64
  br i1 %13, label %10, label %14

14:
  %15 = getelementptr i64, ptr %1, i64 %5
  store i64 %3, ptr %15, align 8
  %16 = load i64, ptr %2, align 8
  %17 = add nsw i64 %16, 1
  store i64 %17, ptr %2, align 8
  br label %10

18:
  %19 = add nuw i64 %8, 1
  %20 = getelementptr i64, ptr %1, i64 %8
  %21 = load i64, ptr %20, align 8
  %22 = icmp eq i64 %21, %3
  br i1 %22, label %10, label %7
}

define i32 @merge(i64 %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5, i64 %6) {
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  call void @llvm.lifetime.start.p0(ptr nonnull %10)
  %11 = inttoptr i64 %0 to ptr
  %12 = add nsw i64 %0, 56
  %13 = add nsw i64 %0, 576
  %14 = load i64, ptr %11, align 8
  %15 = inttoptr i64 %14 to ptr
  %16 = getelementptr i8, ptr %11, i64 8
  %17 = load i64, ptr %16, align 8
  %18 = inttoptr i64 %17 to ptr
  %19 = getelementptr i8, ptr %11, i64 16
  %20 = load i64, ptr %19, align 8
  %21 = inttoptr i64 %20 to ptr
  %22 = inttoptr i64 %12 to ptr
  store i64 0, ptr %22, align 8
  %23 = inttoptr i64 %13 to ptr
  store i64 0, ptr %23, align 8
  %24 = add nsw i64 %0, 840
  %25 = inttoptr i64 %24 to ptr
  store i64 0, ptr %25, align 8
  %26 = icmp slt i64 %4, 1
  br i1 %26, label %88, label %27

27:
  %28 = inttoptr i64 %3 to ptr
  %29 = inttoptr i64 %1 to ptr
  %30 = add nsw i64 %0, 64
  %31 = inttoptr i64 %30 to ptr
  %32 = add nsw i64 %0, 584
  %33 = inttoptr i64 %32 to ptr
  %34 = add nsw i64 %0, 848
  %35 = inttoptr i64 %34 to ptr
  %36 = xor i64 %5, -1
  %37 = icmp eq i64 %2, 0
  %38 = inttoptr i64 %2 to ptr
  br label %39

39:
  %40 = phi i64 [ -1, %27 ], [ %81, %86 ]
  %41 = phi i64 [ -1, %27 ], [ %80, %86 ]
  %42 = phi i64 [ 0, %27 ], [ %43, %86 ]
  %43 = add nuw nsw i64 %42, 1
  %44 = getelementptr i64, ptr %28, i64 %42
  %45 = load i64, ptr %44, align 8
  %46 = getelementptr i64, ptr %29, i64 %45
  %47 = load i64, ptr %46, align 8
  %48 = and i64 %47, %5
  %49 = icmp eq i64 %48, 0
  br i1 %49, label %79, label %50

50:
  %51 = and i64 %47, -64
  %52 = icmp eq i64 %51, %41
  br i1 %52, label %55, label %53

53:
  store i64 0, ptr %10, align 8
  call fastcc void @1(ptr %10, ptr %31, ptr nonnull %22, i64 %51)
  %54 = load i64, ptr %10, align 8
  br label %55

55:
  %56 = phi i64 [ %51, %53 ], [ %41, %50 ]
  %57 = phi i64 [ %54, %53 ], [ %40, %50 ]
  %58 = icmp slt i64 %57, 0
  br i1 %58, label %88, label %59

59:
  %60 = getelementptr i32, ptr %15, i64 %45
  %61 = load i32, ptr %60, align 4
  call void @llvm.lifetime.start.p0(ptr nonnull %8)
  store i64 0, ptr %8, align 8
  call fastcc void @0(ptr %8, ptr %33, ptr nonnull %23, i32 %61)
  %62 = load i64, ptr %8, align 8
  %63 = icmp slt i64 %62, 0
  call void @llvm.lifetime.end.p0(ptr nonnull %8)
  br i1 %63, label %88, label %64

64:
  %65 = getelementptr i32, ptr %18, i64 %45
  %66 = load i32, ptr %65, align 4
  call void @llvm.lifetime.start.p0(ptr nonnull %9)
  store i64 0, ptr %9, align 8
  call fastcc void @0(ptr %9, ptr %35, ptr nonnull %25, i32 %66)
  %67 = load i64, ptr %9, align 8
  %68 = icmp slt i64 %67, 0
  call void @llvm.lifetime.end.p0(ptr nonnull %9)
  br i1 %68, label %88, label %69

69:
  %70 = add nsw i64 %57, %6
  %71 = trunc i64 %70 to i32
  store i32 %71, ptr %60, align 4
  store i32 0, ptr %65, align 4
  %72 = and i64 %47, 63
  %73 = icmp eq i64 %72, 32
  %74 = shl nuw i64 1, %72
  %75 = trunc i64 %74 to i32
  %76 = select i1 %73, i32 -1, i32 %75
  %77 = getelementptr i32, ptr %21, i64 %45
  store i32 %76, ptr %77, align 4
  %78 = and i64 %47, %36
  store i64 %78, ptr %46, align 8
  br label %79

79:
  %80 = phi i64 [ %56, %69 ], [ %41, %39 ]
  %81 = phi i64 [ %57, %69 ], [ %40, %39 ]
  br i1 %37, label %86, label %82

82:
  %83 = getelementptr i8, ptr %38, i64 %45
  %84 = load i8, ptr %83, align 1
  %85 = and i8 %84, 2
  store i8 %85, ptr %83, align 1
  br label %86

86:
  %87 = icmp eq i64 %43, %4
  br i1 %87, label %88, label %39

88:
  %89 = phi i64 [ %4, %7 ], [ %4, %86 ], [ %42, %59 ], [ %42, %55 ], [ %42, %64 ]
  %90 = trunc i64 %89 to i32
  call void @llvm.lifetime.end.p0(ptr nonnull %10)
  ret i32 %90
}

declare void @llvm.lifetime.start.p0(ptr)

declare void @llvm.lifetime.end.p0(ptr)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.smin.i64(i64, i64)


