; Made from shadow_check.py by `python -m bench.checks`.

define internal fastcc void @0(ptr noalias nonnull writeonly %0, ptr readonly %1, i64 %2, i64 %3, i64 %4, i64 %5) {
  %7 = load i64, ptr %1, align 8
  %8 = inttoptr i64 %7 to ptr
  %9 = getelementptr i8, ptr %1, i64 16
  %10 = load i64, ptr %9, align 8
  %11 = inttoptr i64 %10 to ptr
  %12 = getelementptr i8, ptr %1, i64 40
  %13 = load i64, ptr %12, align 8
  %14 = inttoptr i64 %13 to ptr
  %15 = getelementptr i8, ptr %1, i64 48
  %16 = load i64, ptr %15, align 8
  %17 = inttoptr i64 %16 to ptr
  %18 = add nsw i64 %2, 8
  %19 = inttoptr i64 %18 to ptr
  %20 = icmp slt i64 %3, %4
  br i1 %20, label %21, label %104

21:
  %22 = phi i64 [ %103, %102 ], [ %3, %6 ]
  %23 = phi i64 [ %44, %102 ], [ -1, %6 ]
  %24 = phi i64 [ %45, %102 ], [ -1, %6 ]
  %25 = getelementptr i8, ptr %14, i64 %22
  %26 = load i8, ptr %25, align 1
  %27 = icmp eq i8 %26, 0
  br i1 %27, label %43, label %28

28:
  %29 = getelementptr i64, ptr %17, i64 %22
  %30 = load i64, ptr %29, align 8
  %31 = and i64 %30, -64
  %32 = icmp eq i64 %31, %24
  br i1 %32, label %43, label %33

33:
  %34 = load i64, ptr %19, align 8
  %35 = icmp eq i64 %34, %31
  br i1 %35, label %43, label %36

36:
  %37 = phi i64 [ %38, %36 ], [ %5, %33 ]
  %38 = add nsw i64 %37, 1
  %39 = sub nsw i64 %38, %5
  %40 = getelementptr i64, ptr %19, i64 %39
  %41 = load i64, ptr %40, align 8
  %42 = icmp eq i64 %41, %31
  br i1 %42, label %43, label %36

43:
  %44 = phi i64 [ %23, %21 ], [ %5, %33 ], [ %23, %28 ], [ %38, %36 ]
  %45 = phi i64 [ %24, %21 ], [ %31, %33 ], [ %24, %28 ], [ %31, %36 ]
  %46 = sub nsw i64 %4, %22
  %47 = icmp sgt i64 %46, 7
  br i1 %47, label %48, label %85

48:
  %49 = insertelement <4 x i64> poison, i64 %45, i64 0
  %50 = shufflevector <4 x i64> %49, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %51

51:
  %52 = phi i64 [ 0, %48 ], [ %64, %51 ]
  %53 = phi <4 x i1> [ splat (i1 true), %48 ], [ %63, %51 ]
  %54 = add nsw i64 %52, %22
  %55 = getelementptr i8, ptr %14, i64 %54
  %56 = load <4 x i8>, ptr %55, align 1
  %57 = icmp eq <4 x i8> %56, splat (i8 1)
  %58 = getelementptr i64, ptr %17, i64 %54
  %59 = load <4 x i64>, ptr %58, align 8
  %60 = and <4 x i64> %59, splat (i64 -64)
  %61 = icmp eq <4 x i64> %60, %50
  %62 = and <4 x i1> %57, %61
  %63 = and <4 x i1> %53, %62
  %64 = add nuw i64 %52, 4
  %65 = icmp eq i64 %64, 8
  br i1 %65, label %66, label %51

66:
  %67 = bitcast <4 x i1> %63 to i4
  %68 = icmp eq i4 %67, -1
  br i1 %68, label %105, label %85

69:
  %70 = getelementptr i64, ptr %17, i64 %22
  br label %71

71:
  %72 = phi i64 [ 0, %69 ], [ %76, %71 ]
  %73 = getelementptr i64, ptr %70, i64 %72
  %74 = load <4 x i64>, ptr %73, align 8
  %75 = and <4 x i64> %74, splat (i64 -16777153)
  store <4 x i64> %75, ptr %73, align 8
  %76 = add nuw i64 %72, 4
  %77 = icmp eq i64 %76, 8
  br i1 %77, label %78, label %71

78:
  %79 = getelementptr i32, ptr %8, i64 %22
  %80 = trunc i64 %44 to i32
  %81 = insertelement <8 x i32> poison, i32 %80, i64 0
  %82 = shufflevector <8 x i32> %81, <8 x i32> poison, <8 x i32> zeroinitializer
  store <8 x i32> %82, ptr %79, align 4
  store i64 0, ptr %25, align 1
  %83 = add nsw i64 %22, 8
  %84 = icmp slt i64 %83, %4
  br i1 %84, label %102, label %104

85:
  br i1 %27, label %99, label %86

86:
  %87 = getelementptr i64, ptr %17, i64 %22
  %88 = load i64, ptr %87, align 8
  %89 = and i64 %88, 63
  %90 = icmp eq i64 %89, 32
  %91 = shl nuw i64 1, %89
  %92 = trunc i64 %44 to i32
  %93 = getelementptr i32, ptr %8, i64 %22
  store i32 %92, ptr %93, align 4
  %94 = trunc i64 %91 to i32
  %95 = select i1 %90, i32 -1, i32 %94
  %96 = getelementptr i32, ptr %11, i64 %22
  store i32 %95, ptr %96, align 4
  %97 = load i64, ptr %87, align 8
  %98 = and i64 %97, -16777153
  store i64 %98, ptr %87, align 8
  store i8 0, ptr %25, align 1
  br label %99

99:
  %100 = add nsw i64 %22, 1
  %101 = icmp slt i64 %100, %4
  br i1 %101, label %102, label %104

102:
  %103 = phi i64 [ %100, %99 ], [ %83, %78 ]
  br label %21

104:
  store ptr null, ptr %0, align 8
  ret void

105:
  %106 = phi i64 [ %107, %105 ], [ 0, %66 ]
  %107 = add nuw nsw i64 %106, 1
  %108 = add nsw i64 %106, %22
  %109 = getelementptr i64, ptr %17, i64 %108
  %110 = load i64, ptr %109, align 8
  %111 = and i64 %110, 63
  %112 = icmp eq i64 %111, 32
  %113 = shl nuw i64 1, %111
  %114 = trunc i64 %113 to i32
  %115 = select i1 %112, i32 -1, i32 %114
  %116 = getelementptr i32, ptr %11, i64 %108
  store i32 %115, ptr %116, align 4
  %117 = icmp eq i64 %107, 8
  br i1 %117, label %69, label %105
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
  %11 = phi i8 [ 1, %14 ], [ 0, %12 ], [ 1, %18 ]
  store i8 %11, ptr %0, align 1
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

define internal fastcc void @2(ptr noalias nonnull writeonly %0, ptr %1, ptr %2, i32 %3) {
  %5 = load i64, ptr %2, align 8
  %6 = tail call i64 @llvm.smax.i64(i64 %5, i64 0)
  br label %7

7:
  %8 = phi i64 [ 0, %4 ], [ %19, %18 ]
  %9 = icmp eq i64 %8, %6
  br i1 %9, label %12, label %18

10:
  %11 = phi i8 [ 1, %14 ], [ 0, %12 ], [ 1, %18 ]
  store i8 %11, ptr %0, align 1
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
  %9 = alloca i8, align 1
  %10 = alloca i8, align 1
  %11 = alloca ptr, align 8
  %12 = alloca i8, align 1
  call void @llvm.lifetime.start.p0(ptr nonnull %12)
  %13 = inttoptr i64 %0 to ptr
  %14 = add nsw i64 %0, 56
  %15 = add nsw i64 %0, 576
  %16 = load i64, ptr %13, align 8
  %17 = inttoptr i64 %16 to ptr
  %18 = getelementptr i8, ptr %13, i64 8
  %19 = load i64, ptr %18, align 8
  %20 = inttoptr i64 %19 to ptr
  %21 = getelementptr i8, ptr %13, i64 32
  %22 = load i64, ptr %21, align 8
  %23 = inttoptr i64 %22 to ptr
  %24 = load i64, ptr %23, align 8
  %25 = inttoptr i64 %24 to ptr
  %26 = getelementptr i8, ptr %13, i64 40
  %27 = load i64, ptr %26, align 8
  %28 = inttoptr i64 %27 to ptr
  %29 = getelementptr i8, ptr %13, i64 48
  %30 = load i64, ptr %29, align 8
  %31 = inttoptr i64 %30 to ptr
  %32 = icmp eq i64 %27, 0
  %33 = inttoptr i64 %14 to ptr
  store i64 0, ptr %33, align 8
  %34 = inttoptr i64 %15 to ptr
  store i64 0, ptr %34, align 8
  %35 = add nsw i64 %0, 840
  %36 = inttoptr i64 %35 to ptr
  store i64 0, ptr %36, align 8
  %37 = inttoptr i64 %1 to ptr
  %38 = getelementptr i8, ptr %37, i64 24
  %39 = load i64, ptr %38, align 8
  %40 = icmp slt i64 %39, 1
  br i1 %40, label %243, label %41

41:
  %42 = getelementptr i8, ptr %37, i64 8
  %43 = getelementptr i8, ptr %37, i64 16
  %44 = getelementptr i8, ptr %37, i64 32
  %45 = inttoptr i64 %2 to ptr
  %46 = trunc i64 %5 to i1
  %47 = select i1 %46, i64 %3, i64 0
  %48 = getelementptr i64, ptr %45, i64 %47
  %49 = add nsw i64 %0, 64
  %50 = inttoptr i64 %49 to ptr
  %51 = add nsw i64 %0, 584
  %52 = inttoptr i64 %51 to ptr
  %53 = add nsw i64 %0, 848
  %54 = inttoptr i64 %53 to ptr
  %55 = and i64 %5, 1
  %56 = icmp eq i64 %6, 0
  br label %250

57:
  %58 = phi i64 [ %248, %247 ], [ %225, %219 ]
  %59 = sub nsw i64 %272, %58
  %60 = icmp sgt i64 %59, 7
  br i1 %60, label %61, label %76

61:
  %62 = getelementptr i32, ptr %20, i64 %58
  %63 = load <8 x i32>, ptr %62, align 4
  %64 = getelementptr i32, ptr %17, i64 %58
  %65 = load <8 x i32>, ptr %64, align 4
  %66 = icmp ne <8 x i32> %65, %227
  %67 = icmp ne <8 x i32> %63, %229
  %68 = or <8 x i1> %66, %67
  %69 = bitcast <8 x i1> %68 to i8
  %70 = icmp eq i8 %69, 0
  br i1 %70, label %71, label %76

71:
  br i1 %32, label %247, label %72

72:
  %73 = getelementptr i8, ptr %28, i64 %58
  %74 = load i64, ptr %73, align 1
  %75 = icmp eq i64 %74, 0
  br i1 %75, label %247, label %81

76:
  br i1 %32, label %153, label %77

77:
  %78 = getelementptr i8, ptr %28, i64 %58
  %79 = load i8, ptr %78, align 1
  %80 = icmp eq i8 %79, 0
  br i1 %80, label %153, label %85

81:
  %82 = getelementptr i8, ptr %28, i64 %58
  %83 = load i8, ptr %82, align 1
  %84 = icmp eq i8 %83, 0
  br i1 %84, label %153, label %86

85:
  br i1 %60, label %86, label %115

86:
  %87 = phi i8 [ %79, %85 ], [ %83, %81 ]
  %88 = getelementptr i32, ptr %20, i64 %58
  %89 = load <8 x i32>, ptr %88, align 4
  %90 = getelementptr i32, ptr %17, i64 %58
  %91 = load <8 x i32>, ptr %90, align 4
  %92 = icmp ne <8 x i32> %91, %231
  %93 = icmp ne <8 x i32> %89, %233
  %94 = or <8 x i1> %92, %93
  %95 = bitcast <8 x i1> %94 to i8
  %96 = icmp eq i8 %95, 0
  br i1 %96, label %97, label %115

97:
  %98 = phi i64 [ %110, %97 ], [ 0, %86 ]
  %99 = phi <4 x i1> [ %109, %97 ], [ splat (i1 true), %86 ]
  %100 = add nsw i64 %98, %58
  %101 = getelementptr i8, ptr %28, i64 %100
  %102 = load <4 x i8>, ptr %101, align 1
  %103 = icmp eq <4 x i8> %102, splat (i8 1)
  %104 = getelementptr i64, ptr %31, i64 %100
  %105 = load <4 x i64>, ptr %104, align 8
  %106 = and <4 x i64> %105, splat (i64 -64)
  %107 = icmp eq <4 x i64> %106, %235
  %108 = and <4 x i1> %103, %107
  %109 = and <4 x i1> %99, %108
  %110 = add nuw i64 %98, 4
  %111 = icmp eq i64 %110, 8
  br i1 %111, label %112, label %97

112:
  %113 = bitcast <4 x i1> %109 to i4
  %114 = icmp eq i4 %113, -1
  br i1 %114, label %247, label %115

115:
  %116 = phi i8 [ %87, %112 ], [ %87, %86 ], [ %79, %85 ]
  %117 = icmp eq i8 %116, 1
  br i1 %117, label %118, label %274

118:
  %119 = getelementptr i64, ptr %31, i64 %58
  %120 = load i64, ptr %119, align 8
  %121 = and i64 %120, 16777088
  %122 = icmp eq i64 %121, 0
  br i1 %122, label %274, label %123

123:
  %124 = and i64 %120, -64
  %125 = icmp eq i64 %124, %220
  br i1 %125, label %142, label %126

126:
  %127 = lshr i64 %120, 24
  %128 = and i64 %127, 4095
  %129 = icmp slt i64 %128, %3
  br i1 %129, label %130, label %137

130:
  %131 = getelementptr i64, ptr %48, i64 %128
  %132 = load i64, ptr %131, align 8
  %133 = ashr i64 %120, 36
  %134 = icmp sge i64 %132, %133
  %135 = icmp eq i64 %128, %4
  %136 = select i1 %134, i1 true, i1 %135
  br i1 %136, label %139, label %274

137:
  %138 = icmp eq i64 %128, %4
  br i1 %138, label %139, label %274

139:
  store i8 0, ptr %12, align 1
  call fastcc void @1(ptr %12, ptr %50, ptr nonnull %33, i64 %124)
  %140 = load i8, ptr %12, align 1
  %141 = icmp eq i8 %140, 0
  br i1 %141, label %274, label %142

142:
  %143 = phi i64 [ %124, %139 ], [ %220, %123 ]
  %144 = getelementptr i32, ptr %17, i64 %58
  %145 = load i32, ptr %144, align 4
  %146 = getelementptr i32, ptr %20, i64 %58
  %147 = load i32, ptr %146, align 4
  call void @llvm.lifetime.start.p0(ptr nonnull %9)
  store i8 0, ptr %9, align 1
  call fastcc void @2(ptr %9, ptr %52, ptr nonnull %34, i32 %145)
  %148 = load i8, ptr %9, align 1
  %149 = icmp eq i8 %148, 0
  call void @llvm.lifetime.end.p0(ptr nonnull %9)
  br i1 %149, label %274, label %150

150:
  call void @llvm.lifetime.start.p0(ptr nonnull %10)
  store i8 0, ptr %10, align 1
  call fastcc void @2(ptr %10, ptr %54, ptr nonnull %36, i32 %147)
  %151 = load i8, ptr %10, align 1
  %152 = icmp eq i8 %151, 0
  call void @llvm.lifetime.end.p0(ptr nonnull %10)
  br i1 %152, label %274, label %211

153:
  %154 = getelementptr i32, ptr %17, i64 %58
  %155 = load i32, ptr %154, align 4
  %156 = icmp eq i32 %155, %221
  br i1 %156, label %188, label %157

157:
  %158 = sext i32 %155 to i64
  %159 = getelementptr i64, ptr %25, i64 %158
  %160 = load i64, ptr %159, align 8
  %161 = lshr i64 %160, 24
  %162 = and i64 %161, 4095
  %163 = icmp slt i64 %162, %3
  br i1 %163, label %167, label %164

164:
  %165 = lshr i64 %160, 1
  %166 = and i64 %165, 8388607
  br label %177

167:
  %168 = and i64 %55, %160
  %169 = mul nuw nsw i64 %168, %3
  %170 = getelementptr i64, ptr %45, i64 %169
  %171 = getelementptr i64, ptr %170, i64 %162
  %172 = load i64, ptr %171, align 8
  %173 = ashr i64 %160, 36
  %174 = icmp slt i64 %172, %173
  %175 = lshr i64 %160, 1
  %176 = and i64 %175, 8388607
  br i1 %174, label %177, label %182

177:
  %178 = phi i64 [ %166, %164 ], [ %176, %167 ]
  %179 = icmp ne i64 %162, %4
  %180 = icmp eq i64 %160, 9223371968135299072
  %181 = or i1 %180, %179
  br i1 %181, label %274, label %182

182:
  %183 = phi i64 [ %178, %177 ], [ %176, %167 ]
  %184 = icmp eq i64 %183, 0
  %185 = icmp eq i64 %183, %6
  %186 = or i1 %56, %185
  %187 = select i1 %184, i1 true, i1 %186
  br i1 %187, label %188, label %274

188:
  %189 = phi i32 [ %155, %182 ], [ %221, %153 ]
  %190 = getelementptr i32, ptr %20, i64 %58
  %191 = load i32, ptr %190, align 4
  %192 = icmp eq i32 %191, %222
  br i1 %192, label %211, label %193

193:
  %194 = icmp eq i32 %191, 0
  br i1 %194, label %211, label %195

195:
  %196 = sext i32 %191 to i64
  %197 = getelementptr i64, ptr %25, i64 %196
  %198 = load i64, ptr %197, align 8
  %199 = lshr i64 %198, 24
  %200 = and i64 %199, 4095
  %201 = icmp slt i64 %200, %3
  br i1 %201, label %202, label %207

202:
  %203 = getelementptr i64, ptr %45, i64 %200
  %204 = load i64, ptr %203, align 8
  %205 = ashr i64 %198, 36
  %206 = icmp slt i64 %204, %205
  br i1 %206, label %207, label %211

207:
  %208 = icmp ne i64 %200, %4
  %209 = icmp eq i64 %198, 9223371968135299072
  %210 = or i1 %209, %208
  br i1 %210, label %274, label %211

211:
  %212 = phi i64 [ %220, %188 ], [ %143, %150 ], [ %220, %193 ], [ %220, %202 ], [ %220, %207 ]
  %213 = phi i32 [ %189, %188 ], [ %221, %150 ], [ %189, %193 ], [ %189, %202 ], [ %189, %207 ]
  %214 = phi i32 [ %222, %188 ], [ %222, %150 ], [ 0, %193 ], [ %191, %202 ], [ %191, %207 ]
  %215 = phi i32 [ %223, %188 ], [ %145, %150 ], [ %223, %193 ], [ %223, %202 ], [ %223, %207 ]
  %216 = phi i32 [ %224, %188 ], [ %147, %150 ], [ %224, %193 ], [ %224, %202 ], [ %224, %207 ]
  %217 = add nsw i64 %58, 1
  %218 = icmp slt i64 %217, %272
  br i1 %218, label %219, label %236

219:
  %220 = phi i64 [ %212, %211 ], [ %255, %269 ]
  %221 = phi i32 [ %213, %211 ], [ %254, %269 ]
  %222 = phi i32 [ %214, %211 ], [ %253, %269 ]
  %223 = phi i32 [ %215, %211 ], [ %252, %269 ]
  %224 = phi i32 [ %216, %211 ], [ %251, %269 ]
  %225 = phi i64 [ %217, %211 ], [ %270, %269 ]
  %226 = insertelement <8 x i32> poison, i32 %221, i64 0
  %227 = shufflevector <8 x i32> %226, <8 x i32> poison, <8 x i32> zeroinitializer
  %228 = insertelement <8 x i32> poison, i32 %222, i64 0
  %229 = shufflevector <8 x i32> %228, <8 x i32> poison, <8 x i32> zeroinitializer
  %230 = insertelement <8 x i32> poison, i32 %223, i64 0
  %231 = shufflevector <8 x i32> %230, <8 x i32> poison, <8 x i32> zeroinitializer
  %232 = insertelement <8 x i32> poison, i32 %224, i64 0
  %233 = shufflevector <8 x i32> %232, <8 x i32> poison, <8 x i32> zeroinitializer
  %234 = insertelement <4 x i64> poison, i64 %220, i64 0
  %235 = shufflevector <4 x i64> %234, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %57

236:
  %237 = phi i64 [ %255, %269 ], [ %220, %247 ], [ %212, %211 ]
  %238 = phi i32 [ %254, %269 ], [ %221, %247 ], [ %213, %211 ]
  %239 = phi i32 [ %253, %269 ], [ %222, %247 ], [ %214, %211 ]
  %240 = phi i32 [ %252, %269 ], [ %223, %247 ], [ %215, %211 ]
  %241 = phi i32 [ %251, %269 ], [ %224, %247 ], [ %216, %211 ]
  %242 = icmp eq i64 %257, %39
  br i1 %242, label %243, label %250

243:
  %244 = load i64, ptr %33, align 8
  %245 = icmp eq i64 %244, 0
  %246 = select i1 %245, i64 1, i64 3
  br label %274

247:
  %248 = add nsw i64 %58, 8
  %249 = icmp slt i64 %248, %272
  br i1 %249, label %57, label %236

250:
  %251 = phi i32 [ -1, %41 ], [ %241, %236 ]
  %252 = phi i32 [ -1, %41 ], [ %240, %236 ]
  %253 = phi i32 [ -1, %41 ], [ %239, %236 ]
  %254 = phi i32 [ -1, %41 ], [ %238, %236 ]
  %255 = phi i64 [ -1, %41 ], [ %237, %236 ]
  %256 = phi i64 [ 0, %41 ], [ %257, %236 ]
  %257 = add nuw nsw i64 %256, 1
  %258 = load i64, ptr %42, align 8
  %259 = icmp eq i64 %258, 0
  br i1 %259, label %264, label %260

260:
  %261 = inttoptr i64 %258 to ptr
  %262 = getelementptr i64, ptr %261, i64 %256
  %263 = load i64, ptr %262, align 8
  br label %269

264:
  %265 = load i64, ptr %37, align 8
  %266 = load i64, ptr %43, align 8
  %267 = mul nsw i64 %266, %256
  %268 = add nsw i64 %267, %265
  br label %269

269:
  %270 = phi i64 [ %268, %264 ], [ %263, %260 ]
  %271 = load i64, ptr %44, align 8
  %272 = add nsw i64 %271, %270
  %273 = icmp sgt i64 %271, 0
  br i1 %273, label %219, label %236

274:
  %275 = phi i64 [ %246, %243 ], [ 0, %130 ], [ 0, %137 ], [ 2, %150 ], [ 0, %207 ], [ 2, %118 ], [ 0, %177 ], [ 2, %115 ], [ 2, %139 ], [ 2, %142 ], [ 0, %182 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %12)
  br label %276

276:
  %277 = phi i64 [ 0, %274 ], [ %282, %279 ]
  %278 = icmp eq i64 %277, 2
  br i1 %278, label %410, label %279

279:
  %280 = trunc nuw i64 %277 to i1
  %281 = select i1 %280, i64 3, i64 1
  %282 = add nuw nsw i64 %277, 1
  %283 = icmp eq i64 %281, %275
  br i1 %283, label %284, label %276

284:
  call void @llvm.lifetime.start.p0(ptr nonnull %11)
  %285 = load i64, ptr %38, align 8
  %286 = getelementptr i8, ptr %37, i64 40
  %287 = load i64, ptr %286, align 8
  %288 = icmp eq i64 %287, 0
  br i1 %288, label %289, label %330

289:
  %290 = phi i64 [ 0, %284 ], [ %342, %334 ]
  %291 = add nsw i64 %290, %7
  %292 = icmp slt i64 %285, 1
  br i1 %292, label %409, label %293

293:
  %294 = getelementptr i8, ptr %37, i64 8
  %295 = getelementptr i8, ptr %37, i64 16
  %296 = getelementptr i8, ptr %37, i64 32
  %297 = getelementptr i8, ptr %13, i64 24
  %298 = icmp eq i64 %5, 0
  br label %343

299:
  %300 = inttoptr i64 %398 to ptr
  %301 = icmp slt i64 %363, 8
  br i1 %301, label %314, label %302

302:
  %303 = and i64 %367, 9223372036854775800
  %304 = add i64 %358, %303
  %305 = and i64 %367, 7
  %306 = getelementptr i32, ptr %300, i64 %358
  br label %307

307:
  %308 = phi i64 [ 0, %302 ], [ %310, %307 ]
  %309 = getelementptr i32, ptr %306, i64 %308
  store <8 x i32> zeroinitializer, ptr %309, align 4
  %310 = add nuw i64 %308, 8
  %311 = icmp eq i64 %310, %303
  br i1 %311, label %312, label %307

312:
  %313 = icmp eq i64 %363, %303
  br i1 %313, label %324, label %314

314:
  %315 = phi i64 [ %358, %299 ], [ %304, %312 ]
  %316 = phi i64 [ %367, %299 ], [ %305, %312 ]
  br label %317

317:
  %318 = phi i64 [ %321, %317 ], [ %315, %314 ]
  %319 = phi i64 [ %320, %317 ], [ %316, %314 ]
  %320 = add nsw i64 %319, -1
  %321 = add i64 %318, 1
  %322 = getelementptr i32, ptr %300, i64 %318
  store i32 0, ptr %322, align 4
  %323 = icmp ugt i64 %319, 1
  br i1 %323, label %317, label %324

324:
  %325 = load i64, ptr %33, align 8
  %326 = icmp eq i64 %325, 0
  br i1 %326, label %328, label %327

327:
  call fastcc void @0(ptr %11, ptr nonnull %13, i64 %14, i64 %358, i64 %364, i64 %291)
  br label %328

328:
  %329 = icmp eq i64 %285, %345
  br i1 %329, label %409, label %343

330:
  %331 = icmp ne i64 %285, -9223372036854775808
  %332 = icmp ne i64 %287, -1
  %333 = or i1 %331, %332
  br i1 %333, label %334, label %409

334:
  %335 = sdiv i64 %285, %287
  %336 = srem i64 %285, %287
  %337 = xor i64 %336, %287
  %338 = icmp slt i64 %337, 0
  %339 = icmp ne i64 %336, 0
  %340 = and i1 %339, %338
  %341 = sext i1 %340 to i64
  %342 = add i64 %335, %341
  br label %289

343:
  %344 = phi i64 [ 0, %293 ], [ %345, %328 ]
  %345 = add nuw nsw i64 %344, 1
  %346 = load i64, ptr %294, align 8
  %347 = icmp eq i64 %346, 0
  br i1 %347, label %352, label %348

348:
  %349 = inttoptr i64 %346 to ptr
  %350 = getelementptr i64, ptr %349, i64 %344
  %351 = load i64, ptr %350, align 8
  br label %357

352:
  %353 = load i64, ptr %37, align 8
  %354 = load i64, ptr %295, align 8
  %355 = mul nsw i64 %354, %344
  %356 = add nsw i64 %355, %353
  br label %357

357:
  %358 = phi i64 [ %356, %352 ], [ %351, %348 ]
  %359 = load i64, ptr %286, align 8
  %360 = icmp eq i64 %359, 0
  br i1 %360, label %361, label %401

361:
  %362 = phi i64 [ 0, %357 ], [ %408, %401 ]
  %363 = load i64, ptr %296, align 8
  %364 = add nsw i64 %363, %358
  %365 = load i64, ptr %18, align 8
  %366 = inttoptr i64 %365 to ptr
  %367 = tail call i64 @llvm.smax.i64(i64 %363, i64 0)
  %368 = icmp slt i64 %363, 1
  br i1 %368, label %324, label %369

369:
  %370 = add nsw i64 %362, %7
  %371 = trunc i64 %370 to i32
  %372 = icmp slt i64 %363, 8
  br i1 %372, label %387, label %373

373:
  %374 = and i64 %367, 9223372036854775800
  %375 = add i64 %358, %374
  %376 = and i64 %367, 7
  %377 = insertelement <8 x i32> poison, i32 %371, i64 0
  %378 = shufflevector <8 x i32> %377, <8 x i32> poison, <8 x i32> zeroinitializer
  %379 = getelementptr i32, ptr %366, i64 %358
  br label %380

380:
  %381 = phi i64 [ 0, %373 ], [ %383, %380 ]
  %382 = getelementptr i32, ptr %379, i64 %381
  store <8 x i32> %378, ptr %382, align 4
  %383 = add nuw i64 %381, 8
  %384 = icmp eq i64 %383, %374
  br i1 %384, label %385, label %380

385:
  %386 = icmp eq i64 %363, %374
  br i1 %386, label %397, label %387

387:
  %388 = phi i64 [ %358, %369 ], [ %375, %385 ]
  %389 = phi i64 [ %367, %369 ], [ %376, %385 ]
  br label %390

390:
  %391 = phi i64 [ %394, %390 ], [ %388, %387 ]
  %392 = phi i64 [ %393, %390 ], [ %389, %387 ]
  %393 = add nsw i64 %392, -1
  %394 = add i64 %391, 1
  %395 = getelementptr i32, ptr %366, i64 %391
  store i32 %371, ptr %395, align 4
  %396 = icmp ugt i64 %392, 1
  br i1 %396, label %390, label %397

397:
  %398 = load i64, ptr %297, align 8
  %399 = icmp ne i64 %398, 0
  %400 = select i1 %399, i1 %298, i1 false
  br i1 %400, label %299, label %324

401:
  %402 = sdiv i64 %344, %359
  %403 = srem i64 %344, %359
  %404 = icmp slt i64 %359, 0
  %405 = icmp ne i64 %403, 0
  %406 = and i1 %405, %404
  %407 = sext i1 %406 to i64
  %408 = add i64 %402, %407
  br label %361

409:
  call void @llvm.lifetime.end.p0(ptr nonnull %11)
  br label %410

410:
  %411 = trunc nuw nsw i64 %275 to i32
  ret i32 %411
}

define i32 @write(i64 %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5, i64 %6, i64 %7) {
  %9 = alloca i8, align 1
  %10 = alloca i8, align 1
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
  store i8 0, ptr %9, align 1
  call fastcc void @2(ptr %9, ptr %70, ptr %71, i32 %113)
  %149 = load i8, ptr %9, align 1
  %150 = icmp eq i8 %149, 0
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
  store i8 0, ptr %10, align 1
  call fastcc void @2(ptr %10, ptr %74, ptr %75, i32 %154)
  %175 = load i8, ptr %10, align 1
  %176 = icmp eq i8 %175, 0
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

declare void @llvm.lifetime.start.p0(ptr)

declare void @llvm.lifetime.end.p0(ptr)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.smin.i64(i64, i64)


