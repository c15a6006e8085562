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
  br i1 %27, label %258, label %28

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
  br label %150

40:
  %41 = getelementptr i8, ptr %24, i64 8
  %42 = getelementptr i8, ptr %24, i64 16
  %43 = getelementptr i8, ptr %24, i64 32
  %44 = getelementptr i8, ptr %24, i64 40
  %45 = getelementptr i8, ptr %9, i64 24
  %46 = icmp eq i64 %5, 0
  br label %193

47:
  %48 = phi i64 [ %67, %66 ], [ %141, %138 ]
  %49 = sub nsw i64 %165, %48
  %50 = icmp sgt i64 %49, 7
  br i1 %50, label %51, label %69

51:
  %52 = getelementptr i32, ptr %14, i64 %48
  %53 = load <8 x i32>, ptr %52, align 4
  %54 = getelementptr i32, ptr %11, i64 %48
  %55 = load <8 x i32>, ptr %54, align 4
  %56 = icmp ne <8 x i32> %55, %143
  %57 = icmp ne <8 x i32> %53, %145
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
  %68 = icmp slt i64 %67, %165
  br i1 %68, label %47, label %146

69:
  br i1 %23, label %74, label %70

70:
  %71 = getelementptr i8, ptr %22, i64 %48
  %72 = load i8, ptr %71, align 1
  %73 = icmp eq i8 %72, 0
  br i1 %73, label %74, label %258

74:
  %75 = getelementptr i32, ptr %11, i64 %48
  %76 = load i32, ptr %75, align 4
  %77 = icmp eq i32 %76, %139
  br i1 %77, label %110, label %78

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
  br label %99

88:
  %89 = and i64 %36, %81
  %90 = mul nuw nsw i64 %89, %3
  %91 = getelementptr i32, ptr %37, i64 %90
  %92 = getelementptr i32, ptr %91, i64 %83
  %93 = load i32, ptr %92, align 4
  %94 = ashr i64 %81, 36
  %95 = sext i32 %93 to i64
  %96 = icmp sgt i64 %94, %95
  %97 = lshr i64 %81, 1
  %98 = and i64 %97, 8388607
  br i1 %96, label %99, label %104

99:
  %100 = phi i64 [ %87, %85 ], [ %98, %88 ]
  %101 = icmp ne i64 %83, %4
  %102 = icmp eq i64 %81, 9223371968135299072
  %103 = or i1 %102, %101
  br i1 %103, label %258, label %104

104:
  %105 = phi i64 [ %100, %99 ], [ %98, %88 ]
  %106 = icmp eq i64 %105, 0
  %107 = icmp eq i64 %105, %6
  %108 = or i1 %38, %107
  %109 = select i1 %106, i1 true, i1 %108
  br i1 %109, label %110, label %258

110:
  %111 = phi i32 [ %76, %104 ], [ %139, %74 ]
  %112 = getelementptr i32, ptr %14, i64 %48
  %113 = load i32, ptr %112, align 4
  %114 = icmp eq i32 %113, %140
  br i1 %114, label %134, label %115

115:
  %116 = icmp eq i32 %113, 0
  br i1 %116, label %134, label %117

117:
  %118 = sext i32 %113 to i64
  %119 = getelementptr i64, ptr %19, i64 %118
  %120 = load i64, ptr %119, align 8
  %121 = lshr i64 %120, 24
  %122 = and i64 %121, 4095
  %123 = icmp slt i64 %122, %3
  br i1 %123, label %124, label %130

124:
  %125 = getelementptr i32, ptr %37, i64 %122
  %126 = load i32, ptr %125, align 4
  %127 = ashr i64 %120, 36
  %128 = sext i32 %126 to i64
  %129 = icmp sgt i64 %127, %128
  br i1 %129, label %130, label %134

130:
  %131 = icmp ne i64 %122, %4
  %132 = icmp eq i64 %120, 9223371968135299072
  %133 = or i1 %132, %131
  br i1 %133, label %258, label %134

134:
  %135 = phi i32 [ %140, %110 ], [ 0, %115 ], [ %113, %124 ], [ %113, %130 ]
  %136 = add nsw i64 %48, 1
  %137 = icmp slt i64 %136, %165
  br i1 %137, label %138, label %146

138:
  %139 = phi i32 [ %111, %134 ], [ %152, %163 ]
  %140 = phi i32 [ %135, %134 ], [ %151, %163 ]
  %141 = phi i64 [ %136, %134 ], [ %164, %163 ]
  %142 = insertelement <8 x i32> poison, i32 %139, i64 0
  %143 = shufflevector <8 x i32> %142, <8 x i32> poison, <8 x i32> zeroinitializer
  %144 = insertelement <8 x i32> poison, i32 %140, i64 0
  %145 = shufflevector <8 x i32> %144, <8 x i32> poison, <8 x i32> zeroinitializer
  br label %47

146:
  %147 = phi i32 [ %152, %163 ], [ %139, %66 ], [ %111, %134 ]
  %148 = phi i32 [ %151, %163 ], [ %140, %66 ], [ %135, %134 ]
  %149 = icmp eq i64 %26, %154
  br i1 %149, label %40, label %150

150:
  %151 = phi i32 [ -1, %28 ], [ %148, %146 ]
  %152 = phi i32 [ -1, %28 ], [ %147, %146 ]
  %153 = phi i64 [ 0, %28 ], [ %154, %146 ]
  %154 = add nuw nsw i64 %153, 1
  br i1 %31, label %158, label %155

155:
  %156 = getelementptr i64, ptr %32, i64 %153
  %157 = load i64, ptr %156, align 8
  br label %163

158:
  %159 = load i64, ptr %24, align 8
  %160 = load i64, ptr %33, align 8
  %161 = mul nsw i64 %160, %153
  %162 = add nsw i64 %161, %159
  br label %163

163:
  %164 = phi i64 [ %162, %158 ], [ %157, %155 ]
  %165 = add nsw i64 %35, %164
  br i1 %39, label %138, label %146

166:
  %167 = inttoptr i64 %247 to ptr
  %168 = icmp slt i64 %209, 8
  br i1 %168, label %181, label %169

169:
  %170 = and i64 %216, 9223372036854775800
  %171 = add i64 %208, %170
  %172 = and i64 %216, 7
  %173 = getelementptr i32, ptr %167, i64 %208
  br label %174

174:
  %175 = phi i64 [ 0, %169 ], [ %177, %174 ]
  %176 = getelementptr i32, ptr %173, i64 %175
  store <8 x i32> zeroinitializer, ptr %176, align 4
  %177 = add nuw i64 %175, 8
  %178 = icmp eq i64 %177, %170
  br i1 %178, label %179, label %174

179:
  %180 = icmp eq i64 %209, %170
  br i1 %180, label %191, label %181

181:
  %182 = phi i64 [ %208, %166 ], [ %171, %179 ]
  %183 = phi i64 [ %216, %166 ], [ %172, %179 ]
  br label %184

184:
  %185 = phi i64 [ %188, %184 ], [ %182, %181 ]
  %186 = phi i64 [ %187, %184 ], [ %183, %181 ]
  %187 = add nsw i64 %186, -1
  %188 = add i64 %185, 1
  %189 = getelementptr i32, ptr %167, i64 %185
  store i32 0, ptr %189, align 4
  %190 = icmp ugt i64 %186, 1
  br i1 %190, label %184, label %191

191:
  %192 = icmp eq i64 %26, %195
  br i1 %192, label %258, label %193

193:
  %194 = phi i64 [ 0, %40 ], [ %195, %191 ]
  %195 = add nuw nsw i64 %194, 1
  %196 = load i64, ptr %41, align 8
  %197 = icmp eq i64 %196, 0
  br i1 %197, label %202, label %198

198:
  %199 = inttoptr i64 %196 to ptr
  %200 = getelementptr i64, ptr %199, i64 %194
  %201 = load i64, ptr %200, align 8
  br label %207

202:
  %203 = load i64, ptr %24, align 8
  %204 = load i64, ptr %42, align 8
  %205 = mul nsw i64 %204, %194
  %206 = add nsw i64 %205, %203
  br label %207

207:
  %208 = phi i64 [ %206, %202 ], [ %201, %198 ]
  %209 = load i64, ptr %43, align 8
  %210 = load i64, ptr %12, align 8
  %211 = inttoptr i64 %210 to ptr
  %212 = load i64, ptr %44, align 8
  %213 = icmp eq i64 %212, 0
  br i1 %213, label %214, label %250

214:
  %215 = phi i64 [ 0, %207 ], [ %257, %250 ]
  %216 = tail call i64 @llvm.smax.i64(i64 %209, i64 0)
  %217 = icmp slt i64 %209, 1
  br i1 %217, label %191, label %218

218:
  %219 = add nsw i64 %215, %7
  %220 = trunc i64 %219 to i32
  %221 = icmp slt i64 %209, 8
  br i1 %221, label %236, label %222

222:
  %223 = and i64 %216, 9223372036854775800
  %224 = add i64 %208, %223
  %225 = and i64 %216, 7
  %226 = insertelement <8 x i32> poison, i32 %220, i64 0
  %227 = shufflevector <8 x i32> %226, <8 x i32> poison, <8 x i32> zeroinitializer
  %228 = getelementptr i32, ptr %211, i64 %208
  br label %229

229:
  %230 = phi i64 [ 0, %222 ], [ %232, %229 ]
  %231 = getelementptr i32, ptr %228, i64 %230
  store <8 x i32> %227, ptr %231, align 4
  %232 = add nuw i64 %230, 8
  %233 = icmp eq i64 %232, %223
  br i1 %233, label %234, label %229

234:
  %235 = icmp eq i64 %209, %223
  br i1 %235, label %246, label %236

236:
  %237 = phi i64 [ %208, %218 ], [ %224, %234 ]
  %238 = phi i64 [ %216, %218 ], [ %225, %234 ]
  br label %239

239:
  %240 = phi i64 [ %243, %239 ], [ %237, %236 ]
  %241 = phi i64 [ %242, %239 ], [ %238, %236 ]
  %242 = add nsw i64 %241, -1
  %243 = add i64 %240, 1
  %244 = getelementptr i32, ptr %211, i64 %240
  store i32 %220, ptr %244, align 4
  %245 = icmp ugt i64 %241, 1
  br i1 %245, label %239, label %246

246:
  %247 = load i64, ptr %45, align 8
  %248 = icmp ne i64 %247, 0
  %249 = select i1 %248, i1 %46, i1 false
  br i1 %249, label %166, label %191

250:
  %251 = sdiv i64 %194, %212
  %252 = srem i64 %194, %212
  %253 = icmp slt i64 %212, 0
  %254 = icmp ne i64 %252, 0
  %255 = and i1 %254, %253
  %256 = sext i1 %255 to i64
  %257 = add i64 %251, %256
  br label %214

258:
  %259 = phi i32 [ 1, %8 ], [ 1, %191 ], [ 0, %104 ], [ 2, %70 ], [ 0, %130 ], [ 0, %99 ]
  ret i32 %259
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
  %220 = getelementptr i8, ptr %12, i64 8
  %221 = getelementptr i8, ptr %12, i64 16
  %222 = getelementptr i8, ptr %12, i64 32
  %223 = getelementptr i8, ptr %11, i64 16
  %224 = icmp eq i64 %5, 0
  %225 = getelementptr i8, ptr %11, i64 48
  %226 = insertelement <4 x i64> poison, i64 %217, i64 0
  %227 = shufflevector <4 x i64> %226, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %284

228:
  %229 = inttoptr i64 %364 to ptr
  %230 = icmp slt i64 %304, 8
  br i1 %230, label %243, label %231

231:
  %232 = and i64 %307, 9223372036854775800
  %233 = add i64 %299, %232
  %234 = and i64 %307, 7
  %235 = getelementptr i32, ptr %229, i64 %299
  br label %236

236:
  %237 = phi i64 [ 0, %231 ], [ %239, %236 ]
  %238 = getelementptr i32, ptr %235, i64 %237
  store <8 x i32> zeroinitializer, ptr %238, align 4
  %239 = add nuw i64 %237, 8
  %240 = icmp eq i64 %239, %232
  br i1 %240, label %241, label %236

241:
  %242 = icmp eq i64 %304, %232
  br i1 %242, label %253, label %243

243:
  %244 = phi i64 [ %299, %228 ], [ %233, %241 ]
  %245 = phi i64 [ %307, %228 ], [ %234, %241 ]
  br label %246

246:
  %247 = phi i64 [ %250, %246 ], [ %244, %243 ]
  %248 = phi i64 [ %249, %246 ], [ %245, %243 ]
  %249 = add nsw i64 %248, -1
  %250 = add i64 %247, 1
  %251 = getelementptr i32, ptr %229, i64 %247
  store i32 0, ptr %251, align 4
  %252 = icmp ugt i64 %248, 1
  br i1 %252, label %246, label %253

253:
  %254 = load i64, ptr %225, align 8
  %255 = icmp eq i64 %254, 0
  br i1 %255, label %282, label %256

256:
  %257 = inttoptr i64 %254 to ptr
  br i1 %308, label %282, label %258

258:
  %259 = icmp slt i64 %304, 4
  br i1 %259, label %272, label %260

260:
  %261 = and i64 %307, 9223372036854775804
  %262 = add i64 %299, %261
  %263 = and i64 %307, 3
  %264 = getelementptr i64, ptr %257, i64 %299
  br label %265

265:
  %266 = phi i64 [ 0, %260 ], [ %268, %265 ]
  %267 = getelementptr i64, ptr %264, i64 %266
  store <4 x i64> %227, ptr %267, align 8
  %268 = add nuw i64 %266, 4
  %269 = icmp eq i64 %268, %261
  br i1 %269, label %270, label %265

270:
  %271 = icmp eq i64 %304, %261
  br i1 %271, label %282, label %272

272:
  %273 = phi i64 [ %299, %258 ], [ %262, %270 ]
  %274 = phi i64 [ %307, %258 ], [ %263, %270 ]
  br label %275

275:
  %276 = phi i64 [ %279, %275 ], [ %273, %272 ]
  %277 = phi i64 [ %278, %275 ], [ %274, %272 ]
  %278 = add nsw i64 %277, -1
  %279 = add i64 %276, 1
  %280 = getelementptr i64, ptr %257, i64 %276
  store i64 %217, ptr %280, align 8
  %281 = icmp ugt i64 %277, 1
  br i1 %281, label %275, label %282

282:
  %283 = icmp eq i64 %286, %210
  br i1 %283, label %375, label %284

284:
  %285 = phi i64 [ 0, %219 ], [ %286, %282 ]
  %286 = add nuw nsw i64 %285, 1
  %287 = load i64, ptr %220, align 8
  %288 = icmp eq i64 %287, 0
  br i1 %288, label %293, label %289

289:
  %290 = inttoptr i64 %287 to ptr
  %291 = getelementptr i64, ptr %290, i64 %285
  %292 = load i64, ptr %291, align 8
  br label %298

293:
  %294 = load i64, ptr %12, align 8
  %295 = load i64, ptr %221, align 8
  %296 = mul nsw i64 %295, %285
  %297 = add nsw i64 %296, %294
  br label %298

298:
  %299 = phi i64 [ %297, %293 ], [ %292, %289 ]
  %300 = load i64, ptr %13, align 8
  %301 = icmp eq i64 %300, 0
  br i1 %301, label %302, label %367

302:
  %303 = phi i64 [ 0, %298 ], [ %374, %367 ]
  %304 = load i64, ptr %222, align 8
  %305 = load i64, ptr %11, align 8
  %306 = inttoptr i64 %305 to ptr
  %307 = tail call i64 @llvm.smax.i64(i64 %304, i64 0)
  %308 = icmp slt i64 %304, 1
  br i1 %308, label %253, label %309

309:
  %310 = add nsw i64 %303, %7
  %311 = trunc i64 %310 to i32
  %312 = icmp slt i64 %304, 8
  br i1 %312, label %327, label %313

313:
  %314 = and i64 %307, 9223372036854775800
  %315 = add i64 %299, %314
  %316 = and i64 %307, 7
  %317 = insertelement <8 x i32> poison, i32 %311, i64 0
  %318 = shufflevector <8 x i32> %317, <8 x i32> poison, <8 x i32> zeroinitializer
  %319 = getelementptr i32, ptr %306, i64 %299
  br label %320

320:
  %321 = phi i64 [ 0, %313 ], [ %323, %320 ]
  %322 = getelementptr i32, ptr %319, i64 %321
  store <8 x i32> %318, ptr %322, align 4
  %323 = add nuw i64 %321, 8
  %324 = icmp eq i64 %323, %314
  br i1 %324, label %325, label %320

325:
  %326 = icmp eq i64 %304, %314
  br i1 %326, label %337, label %327

327:
  %328 = phi i64 [ %299, %309 ], [ %315, %325 ]
  %329 = phi i64 [ %307, %309 ], [ %316, %325 ]
  br label %330

330:
  %331 = phi i64 [ %334, %330 ], [ %328, %327 ]
  %332 = phi i64 [ %333, %330 ], [ %329, %327 ]
  %333 = add nsw i64 %332, -1
  %334 = add i64 %331, 1
  %335 = getelementptr i32, ptr %306, i64 %331
  store i32 %311, ptr %335, align 4
  %336 = icmp ugt i64 %332, 1
  br i1 %336, label %330, label %337

337:
  %338 = load i64, ptr %17, align 8
  %339 = inttoptr i64 %338 to ptr
  %340 = icmp slt i64 %304, 8
  br i1 %340, label %353, label %341

341:
  %342 = and i64 %307, 9223372036854775800
  %343 = add i64 %299, %342
  %344 = and i64 %307, 7
  %345 = getelementptr i32, ptr %339, i64 %299
  br label %346

346:
  %347 = phi i64 [ 0, %341 ], [ %349, %346 ]
  %348 = getelementptr i32, ptr %345, i64 %347
  store <8 x i32> zeroinitializer, ptr %348, align 4
  %349 = add nuw i64 %347, 8
  %350 = icmp eq i64 %349, %342
  br i1 %350, label %351, label %346

351:
  %352 = icmp eq i64 %304, %342
  br i1 %352, label %363, label %353

353:
  %354 = phi i64 [ %299, %337 ], [ %343, %351 ]
  %355 = phi i64 [ %307, %337 ], [ %344, %351 ]
  br label %356

356:
  %357 = phi i64 [ %360, %356 ], [ %354, %353 ]
  %358 = phi i64 [ %359, %356 ], [ %355, %353 ]
  %359 = add nsw i64 %358, -1
  %360 = add i64 %357, 1
  %361 = getelementptr i32, ptr %339, i64 %357
  store i32 0, ptr %361, align 4
  %362 = icmp ugt i64 %358, 1
  br i1 %362, label %356, label %363

363:
  %364 = load i64, ptr %223, align 8
  %365 = icmp ne i64 %364, 0
  %366 = select i1 %365, i1 %224, i1 false
  br i1 %366, label %228, label %253

367:
  %368 = sdiv i64 %285, %300
  %369 = srem i64 %285, %300
  %370 = icmp slt i64 %300, 0
  %371 = icmp ne i64 %369, 0
  %372 = and i1 %371, %370
  %373 = sext i1 %372 to i64
  %374 = add i64 %368, %373
  br label %302

375:
  %376 = phi i32 [ 1, %206 ], [ 1, %282 ], [ 1, %8 ], [ 0, %149 ], [ 0, %143 ], [ 2, %107 ], [ 0, %176 ], [ 0, %172 ], [ 0, %138 ]
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


