; Made from shadow_check.py by `python -m lab.checks`.

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

define i32 @read(i64 %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5, i64 %6, i64 %7) {
  %9 = inttoptr i64 %0 to ptr
  %10 = inttoptr i64 %1 to ptr
  %11 = getelementptr i8, ptr %10, i64 40
  %12 = load i64, ptr %9, align 8
  %13 = inttoptr i64 %12 to ptr
  %14 = getelementptr i8, ptr %9, i64 8
  %15 = load i64, ptr %14, align 8
  %16 = inttoptr i64 %15 to ptr
  %17 = getelementptr i8, ptr %9, i64 32
  %18 = load i64, ptr %17, align 8
  %19 = inttoptr i64 %18 to ptr
  %20 = load i64, ptr %19, align 8
  %21 = inttoptr i64 %20 to ptr
  %22 = getelementptr i8, ptr %9, i64 40
  %23 = load i64, ptr %22, align 8
  %24 = inttoptr i64 %23 to ptr
  %25 = icmp eq i64 %23, 0
  %26 = getelementptr i8, ptr %10, i64 24
  %27 = load i64, ptr %26, align 8
  %28 = icmp slt i64 %27, 1
  br i1 %28, label %258, label %29

29:
  %30 = getelementptr i8, ptr %10, i64 8
  %31 = load i64, ptr %30, align 8
  %32 = icmp eq i64 %31, 0
  %33 = inttoptr i64 %31 to ptr
  %34 = getelementptr i8, ptr %10, i64 16
  %35 = getelementptr i8, ptr %10, i64 32
  %36 = load i64, ptr %35, align 8
  %37 = and i64 %5, 1
  %38 = inttoptr i64 %2 to ptr
  %39 = icmp eq i64 %6, 0
  %40 = icmp sgt i64 %36, 0
  br label %144

41:
  %42 = phi i64 [ %61, %60 ], [ %135, %132 ]
  %43 = sub nsw i64 %159, %42
  %44 = icmp sgt i64 %43, 7
  br i1 %44, label %45, label %63

45:
  %46 = getelementptr i32, ptr %16, i64 %42
  %47 = load <8 x i32>, ptr %46, align 4
  %48 = getelementptr i32, ptr %13, i64 %42
  %49 = load <8 x i32>, ptr %48, align 4
  %50 = icmp ne <8 x i32> %49, %137
  %51 = icmp ne <8 x i32> %47, %139
  %52 = or <8 x i1> %50, %51
  %53 = bitcast <8 x i1> %52 to i8
  %54 = icmp eq i8 %53, 0
  br i1 %54, label %55, label %63

55:
  br i1 %25, label %60, label %56

56:
  %57 = getelementptr i8, ptr %24, i64 %42
  %58 = load i64, ptr %57, align 1
  %59 = icmp eq i64 %58, 0
  br i1 %59, label %60, label %64

60:
  %61 = add nsw i64 %42, 8
  %62 = icmp slt i64 %61, %159
  br i1 %62, label %41, label %140

63:
  br i1 %25, label %68, label %64

64:
  %65 = getelementptr i8, ptr %24, i64 %42
  %66 = load i8, ptr %65, align 1
  %67 = icmp eq i8 %66, 0
  br i1 %67, label %68, label %258

68:
  %69 = getelementptr i32, ptr %13, i64 %42
  %70 = load i32, ptr %69, align 4
  %71 = icmp eq i32 %70, %133
  br i1 %71, label %104, label %72

72:
  %73 = sext i32 %70 to i64
  %74 = getelementptr i64, ptr %21, i64 %73
  %75 = load i64, ptr %74, align 8
  %76 = lshr i64 %75, 24
  %77 = and i64 %76, 4095
  %78 = icmp slt i64 %77, %3
  br i1 %78, label %82, label %79

79:
  %80 = lshr i64 %75, 1
  %81 = and i64 %80, 8388607
  br label %93

82:
  %83 = and i64 %37, %75
  %84 = mul nuw nsw i64 %83, %3
  %85 = getelementptr i32, ptr %38, i64 %84
  %86 = getelementptr i32, ptr %85, i64 %77
  %87 = load i32, ptr %86, align 4
  %88 = ashr i64 %75, 36
  %89 = sext i32 %87 to i64
  %90 = icmp sgt i64 %88, %89
  %91 = lshr i64 %75, 1
  %92 = and i64 %91, 8388607
  br i1 %90, label %93, label %98

93:
  %94 = phi i64 [ %81, %79 ], [ %92, %82 ]
  %95 = icmp ne i64 %77, %4
  %96 = icmp eq i64 %75, 9223371968135299072
  %97 = or i1 %96, %95
  br i1 %97, label %258, label %98

98:
  %99 = phi i64 [ %94, %93 ], [ %92, %82 ]
  %100 = icmp eq i64 %99, 0
  %101 = icmp eq i64 %99, %6
  %102 = or i1 %39, %101
  %103 = select i1 %100, i1 true, i1 %102
  br i1 %103, label %104, label %258

104:
  %105 = phi i32 [ %133, %68 ], [ %70, %98 ]
  %106 = getelementptr i32, ptr %16, i64 %42
  %107 = load i32, ptr %106, align 4
  %108 = icmp eq i32 %107, %134
  br i1 %108, label %128, label %109

109:
  %110 = icmp eq i32 %107, 0
  br i1 %110, label %128, label %111

111:
  %112 = sext i32 %107 to i64
  %113 = getelementptr i64, ptr %21, i64 %112
  %114 = load i64, ptr %113, align 8
  %115 = lshr i64 %114, 24
  %116 = and i64 %115, 4095
  %117 = icmp slt i64 %116, %3
  br i1 %117, label %118, label %124

118:
  %119 = getelementptr i32, ptr %38, i64 %116
  %120 = load i32, ptr %119, align 4
  %121 = ashr i64 %114, 36
  %122 = sext i32 %120 to i64
  %123 = icmp sgt i64 %121, %122
  br i1 %123, label %124, label %128

124:
  %125 = icmp ne i64 %116, %4
  %126 = icmp eq i64 %114, 9223371968135299072
  %127 = or i1 %126, %125
  br i1 %127, label %258, label %128

128:
  %129 = phi i32 [ %134, %104 ], [ %107, %124 ], [ %107, %118 ], [ 0, %109 ]
  %130 = add nsw i64 %42, 1
  %131 = icmp slt i64 %130, %159
  br i1 %131, label %132, label %140

132:
  %133 = phi i32 [ %105, %128 ], [ %146, %157 ]
  %134 = phi i32 [ %129, %128 ], [ %145, %157 ]
  %135 = phi i64 [ %130, %128 ], [ %158, %157 ]
  %136 = insertelement <8 x i32> poison, i32 %133, i64 0
  %137 = shufflevector <8 x i32> %136, <8 x i32> poison, <8 x i32> zeroinitializer
  %138 = insertelement <8 x i32> poison, i32 %134, i64 0
  %139 = shufflevector <8 x i32> %138, <8 x i32> poison, <8 x i32> zeroinitializer
  br label %41

140:
  %141 = phi i32 [ %146, %157 ], [ %133, %60 ], [ %105, %128 ]
  %142 = phi i32 [ %145, %157 ], [ %134, %60 ], [ %129, %128 ]
  %143 = icmp eq i64 %27, %148
  br i1 %143, label %160, label %144

144:
  %145 = phi i32 [ -1, %29 ], [ %142, %140 ]
  %146 = phi i32 [ -1, %29 ], [ %141, %140 ]
  %147 = phi i64 [ 0, %29 ], [ %148, %140 ]
  %148 = add nuw nsw i64 %147, 1
  br i1 %32, label %152, label %149

149:
  %150 = getelementptr i64, ptr %33, i64 %147
  %151 = load i64, ptr %150, align 8
  br label %157

152:
  %153 = load i64, ptr %10, align 8
  %154 = load i64, ptr %34, align 8
  %155 = mul nsw i64 %154, %147
  %156 = add nsw i64 %155, %153
  br label %157

157:
  %158 = phi i64 [ %156, %152 ], [ %151, %149 ]
  %159 = add nsw i64 %36, %158
  br i1 %40, label %132, label %140

160:
  %161 = getelementptr i8, ptr %9, i64 24
  %162 = load i64, ptr %161, align 8
  %163 = getelementptr i8, ptr %10, i64 8
  %164 = getelementptr i8, ptr %10, i64 16
  %165 = getelementptr i8, ptr %10, i64 32
  %166 = icmp ne i64 %162, 0
  %167 = icmp eq i64 %5, 0
  %168 = select i1 %166, i1 %167, i1 false
  %169 = inttoptr i64 %162 to ptr
  br label %179

170:
  %171 = phi i64 [ %174, %170 ], [ %248, %247 ]
  %172 = phi i64 [ %173, %170 ], [ %249, %247 ]
  %173 = add nsw i64 %172, -1
  %174 = add i64 %171, 1
  %175 = getelementptr i32, ptr %169, i64 %171
  store i32 0, ptr %175, align 4
  %176 = icmp ugt i64 %172, 1
  br i1 %176, label %170, label %177

177:
  %178 = icmp eq i64 %27, %181
  br i1 %178, label %258, label %179

179:
  %180 = phi i64 [ 0, %160 ], [ %181, %177 ]
  %181 = add nuw nsw i64 %180, 1
  %182 = load i64, ptr %163, align 8
  %183 = icmp eq i64 %182, 0
  br i1 %183, label %188, label %184

184:
  %185 = inttoptr i64 %182 to ptr
  %186 = getelementptr i64, ptr %185, i64 %180
  %187 = load i64, ptr %186, align 8
  br label %193

188:
  %189 = load i64, ptr %10, align 8
  %190 = load i64, ptr %164, align 8
  %191 = mul nsw i64 %190, %180
  %192 = add nsw i64 %191, %189
  br label %193

193:
  %194 = phi i64 [ %192, %188 ], [ %187, %184 ]
  %195 = load i64, ptr %11, align 8
  %196 = icmp eq i64 %195, 0
  br i1 %196, label %197, label %250

197:
  %198 = phi i64 [ 0, %193 ], [ %257, %250 ]
  %199 = load i64, ptr %165, align 8
  %200 = load i64, ptr %14, align 8
  %201 = inttoptr i64 %200 to ptr
  %202 = tail call i64 @llvm.smax.i64(i64 %199, i64 0)
  %203 = icmp slt i64 %199, 1
  br i1 %203, label %177, label %204

204:
  %205 = add nsw i64 %198, %7
  %206 = trunc i64 %205 to i32
  %207 = icmp slt i64 %199, 8
  br i1 %207, label %222, label %208

208:
  %209 = and i64 %202, 9223372036854775800
  %210 = add i64 %194, %209
  %211 = and i64 %202, 7
  %212 = insertelement <8 x i32> poison, i32 %206, i64 0
  %213 = shufflevector <8 x i32> %212, <8 x i32> poison, <8 x i32> zeroinitializer
  %214 = getelementptr i32, ptr %201, i64 %194
  br label %215

215:
  %216 = phi i64 [ 0, %208 ], [ %218, %215 ]
  %217 = getelementptr i32, ptr %214, i64 %216
  store <8 x i32> %213, ptr %217, align 4
  %218 = add nuw i64 %216, 8
  %219 = icmp eq i64 %218, %209
  br i1 %219, label %220, label %215

220:
  %221 = icmp eq i64 %199, %209
  br i1 %221, label %232, label %222

222:
  %223 = phi i64 [ %194, %204 ], [ %210, %220 ]
  %224 = phi i64 [ %202, %204 ], [ %211, %220 ]
  br label %225

225:
  %226 = phi i64 [ %229, %225 ], [ %223, %222 ]
  %227 = phi i64 [ %228, %225 ], [ %224, %222 ]
  %228 = add nsw i64 %227, -1
  %229 = add i64 %226, 1
  %230 = getelementptr i32, ptr %201, i64 %226
  store i32 %206, ptr %230, align 4
  %231 = icmp ugt i64 %227, 1
  br i1 %231, label %225, label %232

232:
  br i1 %168, label %233, label %177

233:
  %234 = icmp slt i64 %199, 8
  br i1 %234, label %247, label %235

235:
  %236 = and i64 %202, 9223372036854775800
  %237 = add i64 %194, %236
  %238 = and i64 %202, 7
  %239 = getelementptr i32, ptr %169, i64 %194
  br label %240

240:
  %241 = phi i64 [ 0, %235 ], [ %243, %240 ]
  %242 = getelementptr i32, ptr %239, i64 %241
  store <8 x i32> zeroinitializer, ptr %242, align 4
  %243 = add nuw i64 %241, 8
  %244 = icmp eq i64 %243, %236
  br i1 %244, label %245, label %240

245:
  %246 = icmp eq i64 %199, %236
  br i1 %246, label %177, label %247

247:
  %248 = phi i64 [ %194, %233 ], [ %237, %245 ]
  %249 = phi i64 [ %202, %233 ], [ %238, %245 ]
  br label %170

250:
  %251 = sdiv i64 %180, %195
  %252 = srem i64 %180, %195
  %253 = icmp slt i64 %195, 0
  %254 = icmp ne i64 %252, 0
  %255 = and i1 %254, %253
  %256 = sext i1 %255 to i64
  %257 = add i64 %251, %256
  br label %197

258:
  %259 = phi i32 [ 1, %8 ], [ 1, %177 ], [ 0, %98 ], [ 2, %64 ], [ 0, %124 ], [ 0, %93 ]
  ret i32 %259
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
  br i1 %31, label %375, label %32

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
  br label %187

43:
  %44 = phi i64 [ %33, %187 ], [ %200, %192 ]
  %45 = inttoptr i64 %44 to ptr
  store i64 0, ptr %45, align 8
  %46 = add nsw i64 %44, 264
  %47 = inttoptr i64 %46 to ptr
  store i64 0, ptr %47, align 8
  br label %48

48:
  %49 = phi i64 [ %44, %43 ], [ %200, %192 ]
  %50 = phi i32 [ -1, %43 ], [ %189, %192 ]
  %51 = phi i32 [ -1, %43 ], [ %188, %192 ]
  %52 = load i64, ptr %35, align 8
  %53 = icmp eq i64 %52, 0
  br i1 %53, label %58, label %54

54:
  %55 = inttoptr i64 %52 to ptr
  %56 = getelementptr i64, ptr %55, i64 %190
  %57 = load i64, ptr %56, align 8
  br label %63

58:
  %59 = load i64, ptr %12, align 8
  %60 = load i64, ptr %36, align 8
  %61 = mul nsw i64 %60, %190
  %62 = add nsw i64 %61, %59
  br label %63

63:
  %64 = phi i64 [ %62, %58 ], [ %57, %54 ]
  %65 = load i64, ptr %37, align 8
  %66 = add nsw i64 %65, %64
  %67 = icmp sgt i64 %65, 0
  br i1 %67, label %68, label %183

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
  %77 = phi i32 [ %50, %68 ], [ %153, %179 ]
  %78 = phi i32 [ %51, %68 ], [ %180, %179 ]
  %79 = phi i64 [ %64, %68 ], [ %181, %179 ]
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
  br i1 %105, label %84, label %183

106:
  br i1 %28, label %111, label %107

107:
  %108 = getelementptr i8, ptr %27, i64 %85
  %109 = load i8, ptr %108, align 1
  %110 = icmp eq i8 %109, 0
  br i1 %110, label %111, label %375

111:
  %112 = getelementptr i32, ptr %16, i64 %85
  %113 = load i32, ptr %112, align 4
  %114 = icmp eq i32 %113, %77
  br i1 %114, label %152, label %115

115:
  %116 = icmp eq i32 %113, 0
  br i1 %116, label %149, label %117

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
  br label %138

127:
  %128 = and i64 %38, %120
  %129 = mul nuw nsw i64 %128, %3
  %130 = getelementptr i32, ptr %39, i64 %129
  %131 = getelementptr i32, ptr %130, i64 %122
  %132 = load i32, ptr %131, align 4
  %133 = ashr i64 %120, 36
  %134 = sext i32 %132 to i64
  %135 = icmp sgt i64 %133, %134
  %136 = lshr i64 %120, 1
  %137 = and i64 %136, 8388607
  br i1 %135, label %138, label %143

138:
  %139 = phi i64 [ %126, %124 ], [ %137, %127 ]
  %140 = icmp ne i64 %122, %4
  %141 = icmp eq i64 %120, 9223371968135299072
  %142 = or i1 %141, %140
  br i1 %142, label %375, label %143

143:
  %144 = phi i64 [ %139, %138 ], [ %137, %127 ]
  %145 = icmp eq i64 %144, 0
  %146 = icmp eq i64 %144, %6
  %147 = or i1 %40, %146
  %148 = select i1 %145, i1 true, i1 %147
  br i1 %148, label %149, label %375

149:
  call void @llvm.lifetime.start.p0(ptr nonnull %9)
  store i64 0, ptr %9, align 8
  call fastcc void @0(ptr %9, ptr %70, ptr %71, i32 %113)
  %150 = load i64, ptr %9, align 8
  %151 = icmp slt i64 %150, 0
  call void @llvm.lifetime.end.p0(ptr nonnull %9)
  br i1 %151, label %375, label %152

152:
  %153 = phi i32 [ %113, %149 ], [ %77, %111 ]
  %154 = getelementptr i32, ptr %19, i64 %85
  %155 = load i32, ptr %154, align 4
  %156 = icmp eq i32 %155, %78
  br i1 %156, label %179, label %157

157:
  %158 = icmp eq i32 %155, 0
  br i1 %158, label %176, label %159

159:
  %160 = sext i32 %155 to i64
  %161 = getelementptr i64, ptr %24, i64 %160
  %162 = load i64, ptr %161, align 8
  %163 = lshr i64 %162, 24
  %164 = and i64 %163, 4095
  %165 = icmp slt i64 %164, %3
  br i1 %165, label %166, label %172

166:
  %167 = getelementptr i32, ptr %39, i64 %164
  %168 = load i32, ptr %167, align 4
  %169 = ashr i64 %162, 36
  %170 = sext i32 %168 to i64
  %171 = icmp sgt i64 %169, %170
  br i1 %171, label %172, label %176

172:
  %173 = icmp ne i64 %164, %4
  %174 = icmp eq i64 %162, 9223371968135299072
  %175 = or i1 %174, %173
  br i1 %175, label %375, label %176

176:
  call void @llvm.lifetime.start.p0(ptr nonnull %10)
  store i64 0, ptr %10, align 8
  call fastcc void @0(ptr %10, ptr %74, ptr %75, i32 %155)
  %177 = load i64, ptr %10, align 8
  %178 = icmp slt i64 %177, 0
  call void @llvm.lifetime.end.p0(ptr nonnull %10)
  br i1 %178, label %375, label %179

179:
  %180 = phi i32 [ %155, %176 ], [ %78, %152 ]
  %181 = add nsw i64 %85, 1
  %182 = icmp slt i64 %181, %66
  br i1 %182, label %76, label %183

183:
  %184 = phi i32 [ %50, %63 ], [ %77, %103 ], [ %153, %179 ]
  %185 = phi i32 [ %51, %63 ], [ %78, %103 ], [ %180, %179 ]
  %186 = icmp eq i64 %191, %30
  br i1 %186, label %206, label %187

187:
  %188 = phi i32 [ -1, %32 ], [ %185, %183 ]
  %189 = phi i32 [ -1, %32 ], [ %184, %183 ]
  %190 = phi i64 [ 0, %32 ], [ %191, %183 ]
  %191 = add nuw nsw i64 %190, 1
  br i1 %34, label %43, label %192

192:
  %193 = sdiv i64 %190, %14
  %194 = srem i64 %190, %14
  %195 = icmp ne i64 %194, 0
  %196 = and i1 %195, %41
  %197 = sext i1 %196 to i64
  %198 = add i64 %193, %197
  %199 = mul nsw i64 %198, 528
  %200 = add nsw i64 %199, %33
  %201 = srem i64 %190, %14
  %202 = icmp eq i64 %201, 0
  %203 = select i1 %202, i64 0, i64 %42
  %204 = sub i64 0, %203
  %205 = icmp eq i64 %201, %204
  br i1 %205, label %43, label %48

206:
  %207 = load i64, ptr %20, align 8
  %208 = inttoptr i64 %207 to ptr
  %209 = load i64, ptr %208, align 8
  %210 = load i64, ptr %29, align 8
  %211 = inttoptr i64 %209 to ptr
  %212 = getelementptr i64, ptr %211, i64 %7
  %213 = load i64, ptr %212, align 8
  %214 = icmp eq i64 %213, 9223371968135299072
  %215 = and i64 %213, -16777216
  %216 = or disjoint i64 %215, 32
  %217 = select i1 %214, i64 9223371968135299072, i64 %216
  %218 = icmp slt i64 %210, 1
  br i1 %218, label %375, label %219

219:
  %220 = getelementptr i8, ptr %11, i64 16
  %221 = load i64, ptr %220, align 8
  %222 = getelementptr i8, ptr %12, i64 8
  %223 = getelementptr i8, ptr %12, i64 16
  %224 = getelementptr i8, ptr %12, i64 32
  %225 = icmp ne i64 %221, 0
  %226 = icmp eq i64 %5, 0
  %227 = select i1 %225, i1 %226, i1 false
  %228 = inttoptr i64 %221 to ptr
  %229 = getelementptr i8, ptr %11, i64 48
  %230 = insertelement <4 x i64> poison, i64 %217, i64 0
  %231 = shufflevector <4 x i64> %230, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %299

232:
  %233 = phi i64 [ %236, %232 ], [ %365, %364 ]
  %234 = phi i64 [ %235, %232 ], [ %366, %364 ]
  %235 = add nsw i64 %234, -1
  %236 = add i64 %233, 1
  %237 = getelementptr i32, ptr %228, i64 %233
  store i32 0, ptr %237, align 4
  %238 = icmp ugt i64 %234, 1
  br i1 %238, label %232, label %239

239:
  %240 = load i64, ptr %11, align 8
  %241 = inttoptr i64 %240 to ptr
  %242 = trunc i64 %319 to i32
  %243 = icmp slt i64 %320, 8
  br i1 %243, label %258, label %244

244:
  %245 = and i64 %323, 9223372036854775800
  %246 = add i64 %314, %245
  %247 = and i64 %323, 7
  %248 = insertelement <8 x i32> poison, i32 %242, i64 0
  %249 = shufflevector <8 x i32> %248, <8 x i32> poison, <8 x i32> zeroinitializer
  %250 = getelementptr i32, ptr %241, i64 %314
  br label %251

251:
  %252 = phi i64 [ 0, %244 ], [ %254, %251 ]
  %253 = getelementptr i32, ptr %250, i64 %252
  store <8 x i32> %249, ptr %253, align 4
  %254 = add nuw i64 %252, 8
  %255 = icmp eq i64 %254, %245
  br i1 %255, label %256, label %251

256:
  %257 = icmp eq i64 %320, %245
  br i1 %257, label %268, label %258

258:
  %259 = phi i64 [ %314, %239 ], [ %246, %256 ]
  %260 = phi i64 [ %323, %239 ], [ %247, %256 ]
  br label %261

261:
  %262 = phi i64 [ %265, %261 ], [ %259, %258 ]
  %263 = phi i64 [ %264, %261 ], [ %260, %258 ]
  %264 = add nsw i64 %263, -1
  %265 = add i64 %262, 1
  %266 = getelementptr i32, ptr %241, i64 %262
  store i32 %242, ptr %266, align 4
  %267 = icmp ugt i64 %263, 1
  br i1 %267, label %261, label %268

268:
  %269 = load i64, ptr %229, align 8
  %270 = icmp eq i64 %269, 0
  br i1 %270, label %297, label %271

271:
  %272 = inttoptr i64 %269 to ptr
  br i1 %324, label %297, label %273

273:
  %274 = icmp slt i64 %320, 4
  br i1 %274, label %287, label %275

275:
  %276 = and i64 %323, 9223372036854775804
  %277 = add i64 %314, %276
  %278 = and i64 %323, 3
  %279 = getelementptr i64, ptr %272, i64 %314
  br label %280

280:
  %281 = phi i64 [ 0, %275 ], [ %283, %280 ]
  %282 = getelementptr i64, ptr %279, i64 %281
  store <4 x i64> %231, ptr %282, align 8
  %283 = add nuw i64 %281, 4
  %284 = icmp eq i64 %283, %276
  br i1 %284, label %285, label %280

285:
  %286 = icmp eq i64 %320, %276
  br i1 %286, label %297, label %287

287:
  %288 = phi i64 [ %314, %273 ], [ %277, %285 ]
  %289 = phi i64 [ %323, %273 ], [ %278, %285 ]
  br label %290

290:
  %291 = phi i64 [ %294, %290 ], [ %288, %287 ]
  %292 = phi i64 [ %293, %290 ], [ %289, %287 ]
  %293 = add nsw i64 %292, -1
  %294 = add i64 %291, 1
  %295 = getelementptr i64, ptr %272, i64 %291
  store i64 %217, ptr %295, align 8
  %296 = icmp ugt i64 %292, 1
  br i1 %296, label %290, label %297

297:
  %298 = icmp eq i64 %301, %210
  br i1 %298, label %375, label %299

299:
  %300 = phi i64 [ 0, %219 ], [ %301, %297 ]
  %301 = add nuw nsw i64 %300, 1
  %302 = load i64, ptr %222, align 8
  %303 = icmp eq i64 %302, 0
  br i1 %303, label %308, label %304

304:
  %305 = inttoptr i64 %302 to ptr
  %306 = getelementptr i64, ptr %305, i64 %300
  %307 = load i64, ptr %306, align 8
  br label %313

308:
  %309 = load i64, ptr %12, align 8
  %310 = load i64, ptr %223, align 8
  %311 = mul nsw i64 %310, %300
  %312 = add nsw i64 %311, %309
  br label %313

313:
  %314 = phi i64 [ %312, %308 ], [ %307, %304 ]
  %315 = load i64, ptr %13, align 8
  %316 = icmp eq i64 %315, 0
  br i1 %316, label %317, label %367

317:
  %318 = phi i64 [ 0, %313 ], [ %374, %367 ]
  %319 = add nsw i64 %318, %7
  %320 = load i64, ptr %224, align 8
  %321 = load i64, ptr %17, align 8
  %322 = inttoptr i64 %321 to ptr
  %323 = tail call i64 @llvm.smax.i64(i64 %320, i64 0)
  %324 = icmp slt i64 %320, 1
  br i1 %324, label %268, label %325

325:
  %326 = icmp slt i64 %320, 8
  br i1 %326, label %339, label %327

327:
  %328 = and i64 %323, 9223372036854775800
  %329 = add i64 %314, %328
  %330 = and i64 %323, 7
  %331 = getelementptr i32, ptr %322, i64 %314
  br label %332

332:
  %333 = phi i64 [ 0, %327 ], [ %335, %332 ]
  %334 = getelementptr i32, ptr %331, i64 %333
  store <8 x i32> zeroinitializer, ptr %334, align 4
  %335 = add nuw i64 %333, 8
  %336 = icmp eq i64 %335, %328
  br i1 %336, label %337, label %332

337:
  %338 = icmp eq i64 %320, %328
  br i1 %338, label %349, label %339

339:
  %340 = phi i64 [ %314, %325 ], [ %329, %337 ]
  %341 = phi i64 [ %323, %325 ], [ %330, %337 ]
  br label %342

342:
  %343 = phi i64 [ %346, %342 ], [ %340, %339 ]
  %344 = phi i64 [ %345, %342 ], [ %341, %339 ]
  %345 = add nsw i64 %344, -1
  %346 = add i64 %343, 1
  %347 = getelementptr i32, ptr %322, i64 %343
  store i32 0, ptr %347, align 4
  %348 = icmp ugt i64 %344, 1
  br i1 %348, label %342, label %349

349:
  br i1 %227, label %350, label %239

350:
  %351 = icmp slt i64 %320, 8
  br i1 %351, label %364, label %352

352:
  %353 = and i64 %323, 9223372036854775800
  %354 = add i64 %314, %353
  %355 = and i64 %323, 7
  %356 = getelementptr i32, ptr %228, i64 %314
  br label %357

357:
  %358 = phi i64 [ 0, %352 ], [ %360, %357 ]
  %359 = getelementptr i32, ptr %356, i64 %358
  store <8 x i32> zeroinitializer, ptr %359, align 4
  %360 = add nuw i64 %358, 8
  %361 = icmp eq i64 %360, %353
  br i1 %361, label %362, label %357

362:
  %363 = icmp eq i64 %320, %353
  br i1 %363, label %239, label %364

364:
  %365 = phi i64 [ %314, %350 ], [ %354, %362 ]
  %366 = phi i64 [ %323, %350 ], [ %355, %362 ]
  br label %232

367:
  %368 = sdiv i64 %300, %315
  %369 = srem i64 %300, %315
  %370 = icmp slt i64 %315, 0
  %371 = icmp ne i64 %369, 0
  %372 = and i1 %371, %370
  %373 = sext i1 %372 to i64
  %374 = add i64 %368, %373
  br label %317

375:
  %376 = phi i32 [ 1, %206 ], [ 1, %297 ], [ 1, %8 ], [ 0, %149 ], [ 0, %143 ], [ 2, %107 ], [ 0, %176 ], [ 0, %172 ], [ 0, %138 ]
  ret i32 %376
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


