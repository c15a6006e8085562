; Made from load_store.py by `python -m bench.checks`.

define internal fastcc void @0(ptr noalias nonnull writeonly %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5, i64 %6) {
  %8 = lshr i64 %3, 8
  %9 = and i64 %8, 255
  %10 = lshr i64 %3, 16
  %11 = and i64 %10, 255
  %12 = mul nuw nsw i64 %9, %11
  %13 = inttoptr i64 %6 to ptr
  %14 = getelementptr i8, ptr %13, i64 16
  %15 = load i64, ptr %14, align 8
  %16 = getelementptr i8, ptr %13, i64 24
  %17 = load i64, ptr %16, align 8
  %18 = icmp eq i64 %15, 0
  %19 = and i64 %3, 4
  %20 = icmp eq i64 %19, 0
  %21 = select i1 %18, i1 true, i1 %20
  %22 = tail call i64 @llvm.ctpop.i64(i64 %4)
  br i1 %21, label %29, label %23

23:
  %24 = icmp ugt i64 %22, 1
  %25 = icmp ne i64 %4, 4294967295
  %26 = and i1 %25, %24
  br i1 %26, label %27, label %29

27:
  %28 = phi i8 [ 0, %23 ], [ 0, %88 ], [ 0, %84 ], [ 1, %93 ], [ 0, %68 ]
  store i8 %28, ptr %0, align 1
  ret void

29:
  %30 = inttoptr i64 %2 to ptr
  %31 = getelementptr i8, ptr %30, i64 32
  %32 = load i64, ptr %31, align 8
  %33 = add nsw i64 %32, %1
  %34 = inttoptr i64 %33 to ptr
  %35 = getelementptr i8, ptr %34, i64 136
  %36 = load i64, ptr %35, align 8
  %37 = shl i64 %36, 22
  %38 = getelementptr i8, ptr %30, i64 8
  %39 = load i64, ptr %38, align 8
  %40 = add nsw i64 %39, %1
  %41 = getelementptr i8, ptr %30, i64 16
  %42 = load i64, ptr %41, align 8
  %43 = load i64, ptr %13, align 8
  %44 = getelementptr i8, ptr %13, i64 8
  %45 = load i64, ptr %44, align 8
  %46 = add nsw i64 %45, %43
  %47 = and i64 %3, 2
  %48 = icmp eq i64 %47, 0
  %49 = inttoptr i64 %40 to ptr
  %50 = trunc i64 %42 to i32
  %51 = add nsw i64 %12, -1
  %52 = icmp ult i64 %22, 2
  %53 = select i1 %20, i1 true, i1 %52
  %54 = ashr i64 %3, 32
  %55 = lshr i64 %12, %54
  %56 = and i64 %3, 64
  %57 = icmp eq i64 %56, 0
  br label %95

58:
  br i1 %48, label %63, label %59

59:
  %60 = getelementptr i64, ptr %49, i64 %96
  %61 = load i64, ptr %60, align 8
  %62 = add nsw i64 %61, %42
  br label %68

63:
  %64 = getelementptr i32, ptr %49, i64 %96
  %65 = load i32, ptr %64, align 4
  %66 = add i32 %65, %50
  %67 = zext i32 %66 to i64
  br label %68

68:
  %69 = phi i64 [ %67, %63 ], [ %62, %59 ]
  %70 = icmp sle i64 %43, %69
  %71 = icmp slt i64 %69, %46
  %72 = select i1 %70, i1 %71, i1 false
  %73 = and i64 %69, %51
  %74 = icmp eq i64 %73, 0
  %75 = select i1 %72, i1 %74, i1 false
  br i1 %75, label %76, label %27

76:
  br i1 %18, label %93, label %77

77:
  %78 = select i1 %53, i64 %96, i64 32
  %79 = or i64 %78, %37
  %80 = ashr i64 %69, %54
  br label %81

81:
  %82 = phi i64 [ 0, %77 ], [ %102, %88 ]
  %83 = icmp eq i64 %82, %55
  br i1 %83, label %93, label %101

84:
  %85 = and i64 %107, 1099507433535
  %86 = icmp eq i64 %85, %79
  %87 = select i1 %57, i1 %86, i1 false
  br i1 %87, label %88, label %27

88:
  %89 = icmp eq i64 %110, 0
  %90 = and i64 %110, 1099507433535
  %91 = icmp eq i64 %90, %79
  %92 = select i1 %89, i1 true, i1 %91
  br i1 %92, label %81, label %27

93:
  %94 = icmp eq i64 %97, 32
  br i1 %94, label %27, label %95

95:
  %96 = phi i64 [ 0, %29 ], [ %97, %93 ]
  %97 = add nuw nsw i64 %96, 1
  %98 = shl nuw i64 1, %96
  %99 = and i64 %98, %5
  %100 = icmp eq i64 %99, 0
  br i1 %100, label %93, label %58

101:
  %102 = add nuw nsw i64 %82, 1
  %103 = add nsw i64 %82, %80
  %104 = shl nsw i64 %103, 3
  %105 = add nsw i64 %104, %15
  %106 = inttoptr i64 %105 to ptr
  %107 = load i64, ptr %106, align 8
  %108 = add nsw i64 %104, %17
  %109 = inttoptr i64 %108 to ptr
  %110 = load i64, ptr %109, align 8
  %111 = icmp eq i64 %107, 0
  br i1 %111, label %88, label %84
}

define i64 @load_global(i64 %0, i64 %1, i64 %2) {
  %4 = alloca i8, align 1
  call void @llvm.lifetime.start.p0(ptr nonnull %4)
  %5 = inttoptr i64 %2 to ptr
  %6 = getelementptr i8, ptr %5, i64 48
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr i8, ptr %5, i64 24
  %9 = load i64, ptr %8, align 8
  %10 = and i64 %7, 8
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %24, label %12

12:
  %13 = getelementptr i8, ptr %5, i64 40
  %14 = load i64, ptr %13, align 8
  %15 = add nsw i64 %14, %0
  %16 = inttoptr i64 %15 to ptr
  %17 = load i32, ptr %16, align 4
  %18 = trunc i64 %7 to i32
  %19 = lshr i32 %18, 4
  %20 = and i32 %19, 1
  %21 = add nsw i32 %20, -1
  %22 = xor i32 %17, %21
  %23 = zext i32 %22 to i64
  br label %24

24:
  %25 = phi i64 [ %23, %12 ], [ 4294967295, %3 ]
  %26 = and i64 %25, %1
  %27 = getelementptr i8, ptr %5, i64 32
  %28 = load i64, ptr %27, align 8
  %29 = add nsw i64 %28, %0
  %30 = and i64 %7, 4
  %31 = icmp eq i64 %30, 0
  %32 = sub nsw i64 0, %26
  %33 = select i1 %31, i64 4294967295, i64 %32
  %34 = and i64 %33, %26
  %35 = inttoptr i64 %29 to ptr
  %36 = load i64, ptr %35, align 8
  %37 = shl nsw i64 %9, 5
  %38 = add nsw i64 %36, %37
  %39 = lshr i64 %7, 8
  %40 = and i64 %39, 255
  %41 = lshr i64 %7, 16
  %42 = and i64 %41, 255
  %43 = mul nuw nsw i64 %40, %42
  store i8 0, ptr %4, align 1
  call fastcc void @0(ptr %4, i64 %0, i64 %2, i64 %7, i64 %26, i64 %34, i64 %38)
  %44 = load i8, ptr %4, align 1
  %45 = icmp eq i8 %44, 0
  br i1 %45, label %236, label %46

46:
  %47 = getelementptr i8, ptr %5, i64 8
  %48 = load i64, ptr %47, align 8
  %49 = add nsw i64 %48, %0
  %50 = getelementptr i8, ptr %5, i64 16
  %51 = load i64, ptr %50, align 8
  %52 = load i64, ptr %5, align 8
  %53 = inttoptr i64 %38 to ptr
  %54 = getelementptr i8, ptr %53, i64 16
  %55 = load i64, ptr %54, align 8
  %56 = getelementptr i8, ptr %53, i64 24
  %57 = load i64, ptr %56, align 8
  %58 = getelementptr i8, ptr %35, i64 112
  %59 = load i64, ptr %58, align 8
  %60 = inttoptr i64 %59 to ptr
  %61 = getelementptr i8, ptr %35, i64 128
  %62 = load i64, ptr %61, align 8
  %63 = getelementptr i64, ptr %60, i64 %62
  %64 = load i64, ptr %63, align 8
  %65 = shl i64 %64, 40
  %66 = getelementptr i8, ptr %35, i64 136
  %67 = load i64, ptr %66, align 8
  %68 = shl i64 %67, 22
  %69 = shl i64 %9, 6
  %70 = add i64 %69, 64
  %71 = and i64 %7, 2
  %72 = icmp eq i64 %71, 0
  %73 = inttoptr i64 %49 to ptr
  %74 = trunc i64 %51 to i32
  %75 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %76 = icmp ult i64 %75, 2
  %77 = select i1 %31, i1 true, i1 %76
  %78 = or i64 %65, %70
  %79 = or i64 %78, %68
  %80 = icmp eq i64 %55, 0
  %81 = ashr i64 %7, 32
  %82 = lshr i64 %43, %81
  %83 = select i1 %80, i64 0, i64 %82
  %84 = icmp eq i64 %83, 0
  %85 = add nsw i64 %52, %0
  %86 = lshr i64 %7, 24
  %87 = and i64 %86, 255
  %88 = icmp eq i64 %40, 4
  %89 = icmp eq i64 %87, 4
  %90 = and i1 %88, %89
  %91 = and i1 %31, %90
  %92 = icmp eq i64 %42, 0
  %93 = trunc i64 %39 to i8
  %94 = and i64 %7, 1
  %95 = icmp ne i64 %94, 0
  %96 = icmp ult i64 %40, 8
  %97 = and i1 %95, %96
  %98 = shl nuw nsw i64 %40, 3
  %99 = add nsw i64 %98, -1
  %100 = shl nuw nsw i64 1, %99
  %101 = tail call i64 @llvm.umax.i64(i64 %87, i64 4)
  %102 = shl nuw nsw i64 %101, 5
  %103 = trunc i64 %86 to i8
  br label %222

104:
  br i1 %72, label %109, label %105

105:
  %106 = getelementptr i64, ptr %73, i64 %223
  %107 = load i64, ptr %106, align 8
  %108 = add nsw i64 %107, %51
  br label %114

109:
  %110 = getelementptr i32, ptr %73, i64 %223
  %111 = load i32, ptr %110, align 4
  %112 = add i32 %111, %74
  %113 = zext i32 %112 to i64
  br label %114

114:
  %115 = phi i64 [ %113, %109 ], [ %108, %105 ]
  %116 = select i1 %77, i64 %223, i64 32
  %117 = or i64 %79, %116
  br i1 %84, label %120, label %118

118:
  %119 = ashr i64 %115, %81
  br label %228

120:
  br i1 %91, label %125, label %121

121:
  br i1 %92, label %198, label %122

122:
  %123 = mul nuw nsw i64 %223, %87
  %124 = add i64 %123, %85
  br label %171

125:
  br i1 %92, label %198, label %126

126:
  %127 = inttoptr i64 %115 to ptr
  br label %161

128:
  %129 = xor i64 %191, %100
  %130 = sub nsw i64 %129, %100
  br label %131

131:
  %132 = phi i64 [ %130, %128 ], [ %191, %190 ], [ %181, %180 ]
  %133 = mul nuw nsw i64 %102, %172
  br i1 %31, label %149, label %134

134:
  %135 = add nsw i64 %133, %85
  %136 = trunc i64 %132 to i16
  %137 = trunc i64 %132 to i32
  %138 = trunc i64 %132 to i8
  br label %192

139:
  %140 = mul nuw nsw i64 %193, %87
  %141 = add nsw i64 %135, %140
  %142 = inttoptr i64 %141 to ptr
  switch i8 %103, label %146 [
    i8 4, label %143
    i8 8, label %144
    i8 2, label %145
  ]

143:
  store i32 %137, ptr %142, align 4
  br label %147

144:
  store i64 %132, ptr %142, align 8
  br label %147

145:
  store i16 %136, ptr %142, align 2
  br label %147

146:
  store i8 %138, ptr %142, align 1
  br label %147

147:
  %148 = icmp eq i64 %194, 32
  br i1 %148, label %159, label %192

149:
  %150 = add i64 %124, %133
  %151 = inttoptr i64 %150 to ptr
  switch i8 %103, label %157 [
    i8 4, label %152
    i8 8, label %154
    i8 2, label %155
  ]

152:
  %153 = trunc i64 %132 to i32
  store i32 %153, ptr %151, align 4
  br label %159

154:
  store i64 %132, ptr %151, align 8
  br label %159

155:
  %156 = trunc i64 %132 to i16
  store i16 %156, ptr %151, align 2
  br label %159

157:
  %158 = trunc i64 %132 to i8
  store i8 %158, ptr %151, align 1
  br label %159

159:
  %160 = icmp eq i64 %173, %42
  br i1 %160, label %198, label %171

161:
  %162 = phi i64 [ 0, %126 ], [ %163, %161 ]
  %163 = add nuw nsw i64 %162, 1
  %164 = getelementptr i32, ptr %127, i64 %162
  %165 = load i32, ptr %164, align 4
  %166 = shl nsw i64 %162, 7
  %167 = add nsw i64 %166, %85
  %168 = inttoptr i64 %167 to ptr
  %169 = getelementptr i32, ptr %168, i64 %223
  store i32 %165, ptr %169, align 4
  %170 = icmp eq i64 %163, %42
  br i1 %170, label %198, label %161

171:
  %172 = phi i64 [ 0, %122 ], [ %173, %159 ]
  %173 = add nuw nsw i64 %172, 1
  %174 = mul nuw nsw i64 %172, %40
  %175 = add nsw i64 %174, %115
  %176 = inttoptr i64 %175 to ptr
  switch i8 %93, label %184 [
    i8 4, label %177
    i8 8, label %180
    i8 2, label %182
  ]

177:
  %178 = load i32, ptr %176, align 4
  %179 = zext i32 %178 to i64
  br label %190

180:
  %181 = load i64, ptr %176, align 8
  br label %131

182:
  %183 = load i16, ptr %176, align 2
  br label %187

184:
  %185 = load i8, ptr %176, align 1
  %186 = zext i8 %185 to i16
  br label %187

187:
  %188 = phi i16 [ %183, %182 ], [ %186, %184 ]
  %189 = zext i16 %188 to i64
  br label %190

190:
  %191 = phi i64 [ %189, %187 ], [ %179, %177 ]
  br i1 %97, label %128, label %131

192:
  %193 = phi i64 [ 0, %134 ], [ %194, %147 ]
  %194 = add nuw nsw i64 %193, 1
  %195 = shl nuw i64 1, %193
  %196 = and i64 %195, %26
  %197 = icmp eq i64 %196, 0
  br i1 %197, label %147, label %139

198:
  %199 = icmp eq i64 %224, 32
  br i1 %199, label %200, label %222

200:
  %201 = getelementptr i8, ptr %35, i64 8
  %202 = load i64, ptr %201, align 8
  %203 = inttoptr i64 %202 to ptr
  %204 = load i64, ptr %203, align 8
  %205 = insertelement <4 x i64> poison, i64 %34, i64 0
  %206 = shufflevector <4 x i64> %205, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %207

207:
  %208 = phi i64 [ 0, %200 ], [ %214, %207 ]
  %209 = phi <4 x i64> [ zeroinitializer, %200 ], [ %213, %207 ]
  %210 = phi <4 x i64> [ <i64 0, i64 1, i64 2, i64 3>, %200 ], [ %215, %207 ]
  %211 = lshr <4 x i64> %206, %210
  %212 = and <4 x i64> %211, splat (i64 1)
  %213 = add <4 x i64> %212, %209
  %214 = add nuw i64 %208, 4
  %215 = add nuw nsw <4 x i64> %210, splat (i64 4)
  %216 = icmp eq i64 %214, 32
  br i1 %216, label %217, label %207

217:
  %218 = tail call i64 @llvm.vector.reduce.add.v4i64(<4 x i64> %213)
  %219 = mul nuw nsw i64 %218, %43
  %220 = add nsw i64 %219, %204
  store i64 %220, ptr %203, align 8
  %221 = add nsw i64 %2, 56
  br label %236

222:
  %223 = phi i64 [ 0, %46 ], [ %224, %198 ]
  %224 = add nuw nsw i64 %223, 1
  %225 = shl nuw i64 1, %223
  %226 = and i64 %225, %34
  %227 = icmp eq i64 %226, 0
  br i1 %227, label %198, label %104

228:
  %229 = phi i64 [ 0, %118 ], [ %230, %228 ]
  %230 = add nuw nsw i64 %229, 1
  %231 = add nsw i64 %229, %119
  %232 = shl nsw i64 %231, 3
  %233 = add nsw i64 %232, %57
  %234 = inttoptr i64 %233 to ptr
  store i64 %117, ptr %234, align 8
  %235 = icmp eq i64 %230, %83
  br i1 %235, label %120, label %228

236:
  %237 = phi i64 [ %221, %217 ], [ 0, %24 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %237
}

define i64 @store_global(i64 %0, i64 %1, i64 %2) {
  %4 = alloca i8, align 1
  call void @llvm.lifetime.start.p0(ptr nonnull %4)
  %5 = inttoptr i64 %2 to ptr
  %6 = getelementptr i8, ptr %5, i64 48
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr i8, ptr %5, i64 24
  %9 = load i64, ptr %8, align 8
  %10 = and i64 %7, 8
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %24, label %12

12:
  %13 = getelementptr i8, ptr %5, i64 40
  %14 = load i64, ptr %13, align 8
  %15 = add nsw i64 %14, %0
  %16 = inttoptr i64 %15 to ptr
  %17 = load i32, ptr %16, align 4
  %18 = trunc i64 %7 to i32
  %19 = lshr i32 %18, 4
  %20 = and i32 %19, 1
  %21 = add nsw i32 %20, -1
  %22 = xor i32 %17, %21
  %23 = zext i32 %22 to i64
  br label %24

24:
  %25 = phi i64 [ %23, %12 ], [ 4294967295, %3 ]
  %26 = and i64 %25, %1
  %27 = getelementptr i8, ptr %5, i64 32
  %28 = load i64, ptr %27, align 8
  %29 = add nsw i64 %28, %0
  %30 = and i64 %7, 4
  %31 = icmp eq i64 %30, 0
  %32 = sub nsw i64 0, %26
  %33 = select i1 %31, i64 4294967295, i64 %32
  %34 = and i64 %33, %26
  %35 = inttoptr i64 %29 to ptr
  %36 = load i64, ptr %35, align 8
  %37 = shl nsw i64 %9, 5
  %38 = add nsw i64 %36, %37
  %39 = lshr i64 %7, 8
  %40 = and i64 %39, 255
  %41 = lshr i64 %7, 16
  %42 = and i64 %41, 255
  %43 = mul nuw nsw i64 %40, %42
  store i8 0, ptr %4, align 1
  call fastcc void @0(ptr %4, i64 %0, i64 %2, i64 %7, i64 %26, i64 %34, i64 %38)
  %44 = load i8, ptr %4, align 1
  %45 = icmp eq i8 %44, 0
  br i1 %45, label %261, label %46

46:
  %47 = getelementptr i8, ptr %5, i64 8
  %48 = load i64, ptr %47, align 8
  %49 = add nsw i64 %48, %0
  %50 = getelementptr i8, ptr %5, i64 16
  %51 = load i64, ptr %50, align 8
  %52 = load i64, ptr %5, align 8
  %53 = inttoptr i64 %38 to ptr
  %54 = getelementptr i8, ptr %53, i64 16
  %55 = load i64, ptr %54, align 8
  %56 = getelementptr i8, ptr %53, i64 24
  %57 = load i64, ptr %56, align 8
  %58 = getelementptr i8, ptr %35, i64 112
  %59 = load i64, ptr %58, align 8
  %60 = inttoptr i64 %59 to ptr
  %61 = getelementptr i8, ptr %35, i64 128
  %62 = load i64, ptr %61, align 8
  %63 = getelementptr i64, ptr %60, i64 %62
  %64 = load i64, ptr %63, align 8
  %65 = shl i64 %64, 40
  %66 = getelementptr i8, ptr %35, i64 136
  %67 = load i64, ptr %66, align 8
  %68 = shl i64 %67, 22
  %69 = shl i64 %9, 6
  %70 = add i64 %69, 64
  %71 = and i64 %7, 2
  %72 = icmp eq i64 %71, 0
  %73 = inttoptr i64 %49 to ptr
  %74 = trunc i64 %51 to i32
  %75 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %76 = icmp ult i64 %75, 2
  %77 = select i1 %31, i1 true, i1 %76
  %78 = icmp eq i64 %55, 0
  %79 = ashr i64 %7, 32
  %80 = lshr i64 %43, %79
  %81 = select i1 %78, i64 0, i64 %80
  %82 = icmp eq i64 %81, 0
  %83 = lshr i64 %40, 1
  %84 = lshr i64 %40, 3
  %85 = sub nsw i64 %83, %84
  %86 = and i64 %7, 32
  %87 = icmp eq i64 %86, 0
  %88 = lshr i64 %7, 24
  %89 = and i64 %88, 255
  %90 = tail call i64 @llvm.umax.i64(i64 %89, i64 4)
  %91 = shl nuw nsw i64 %90, 5
  %92 = add nsw i64 %52, %0
  %93 = trunc i64 %88 to i8
  %94 = trunc i64 %39 to i8
  %95 = icmp eq i64 %40, 8
  %96 = shl nuw nsw i64 %40, 3
  %97 = shl nsw i64 -1, %96
  %98 = xor i64 %97, -1
  %99 = select i1 %95, i64 -1, i64 %98
  %100 = or i64 %65, %70
  %101 = or i64 %68, %100
  %102 = icmp eq i64 %42, 0
  br label %191

103:
  br i1 %72, label %108, label %104

104:
  %105 = getelementptr i64, ptr %73, i64 %192
  %106 = load i64, ptr %105, align 8
  %107 = add nsw i64 %106, %51
  br label %113

108:
  %109 = getelementptr i32, ptr %73, i64 %192
  %110 = load i32, ptr %109, align 4
  %111 = add i32 %110, %74
  %112 = zext i32 %111 to i64
  br label %113

113:
  %114 = phi i64 [ %112, %108 ], [ %107, %104 ]
  br i1 %82, label %121, label %115

115:
  %116 = select i1 %77, i64 %192, i64 32
  %117 = ashr i64 %114, %79
  %118 = mul nuw nsw i64 %192, %89
  %119 = add i64 %92, %118
  %120 = or i64 %116, %101
  br label %197

121:
  br i1 %102, label %159, label %122

122:
  %123 = mul nuw nsw i64 %192, %89
  %124 = add i64 %92, %123
  br label %125

125:
  %126 = phi i64 [ 0, %122 ], [ %127, %157 ]
  %127 = add nuw nsw i64 %126, 1
  br i1 %87, label %128, label %145

128:
  %129 = mul nuw nsw i64 %91, %126
  %130 = add i64 %124, %129
  %131 = inttoptr i64 %130 to ptr
  switch i8 %93, label %139 [
    i8 4, label %132
    i8 8, label %135
    i8 2, label %137
  ]

132:
  %133 = load i32, ptr %131, align 4
  %134 = zext i32 %133 to i64
  br label %145

135:
  %136 = load i64, ptr %131, align 8
  br label %145

137:
  %138 = load i16, ptr %131, align 2
  br label %142

139:
  %140 = load i8, ptr %131, align 1
  %141 = zext i8 %140 to i16
  br label %142

142:
  %143 = phi i16 [ %138, %137 ], [ %141, %139 ]
  %144 = zext i16 %143 to i64
  br label %145

145:
  %146 = phi i64 [ %52, %125 ], [ %144, %142 ], [ %134, %132 ], [ %136, %135 ]
  %147 = mul nuw nsw i64 %126, %40
  %148 = add nsw i64 %147, %114
  %149 = inttoptr i64 %148 to ptr
  switch i8 %94, label %155 [
    i8 4, label %150
    i8 8, label %152
    i8 2, label %153
  ]

150:
  %151 = trunc i64 %146 to i32
  store i32 %151, ptr %149, align 4
  br label %157

152:
  store i64 %146, ptr %149, align 8
  br label %157

153:
  %154 = trunc i64 %146 to i16
  store i16 %154, ptr %149, align 2
  br label %157

155:
  %156 = trunc i64 %146 to i8
  store i8 %156, ptr %149, align 1
  br label %157

157:
  %158 = icmp eq i64 %127, %42
  br i1 %158, label %159, label %125

159:
  %160 = icmp eq i64 %193, 32
  br i1 %160, label %161, label %191

161:
  %162 = getelementptr i8, ptr %35, i64 104
  %163 = load i64, ptr %162, align 8
  %164 = inttoptr i64 %163 to ptr
  %165 = getelementptr i32, ptr %164, i64 %9
  %166 = load i32, ptr %165, align 4
  %167 = trunc nuw i64 %26 to i32
  %168 = or i32 %166, %167
  store i32 %168, ptr %165, align 4
  %169 = getelementptr i8, ptr %35, i64 8
  %170 = load i64, ptr %169, align 8
  %171 = inttoptr i64 %170 to ptr
  %172 = getelementptr i8, ptr %171, i64 8
  %173 = load i64, ptr %172, align 8
  %174 = insertelement <4 x i64> poison, i64 %34, i64 0
  %175 = shufflevector <4 x i64> %174, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %176

176:
  %177 = phi i64 [ 0, %161 ], [ %183, %176 ]
  %178 = phi <4 x i64> [ zeroinitializer, %161 ], [ %182, %176 ]
  %179 = phi <4 x i64> [ <i64 0, i64 1, i64 2, i64 3>, %161 ], [ %184, %176 ]
  %180 = lshr <4 x i64> %175, %179
  %181 = and <4 x i64> %180, splat (i64 1)
  %182 = add <4 x i64> %181, %178
  %183 = add nuw i64 %177, 4
  %184 = add nuw nsw <4 x i64> %179, splat (i64 4)
  %185 = icmp eq i64 %183, 32
  br i1 %185, label %186, label %176

186:
  %187 = tail call i64 @llvm.vector.reduce.add.v4i64(<4 x i64> %182)
  %188 = mul nuw nsw i64 %187, %43
  %189 = add nsw i64 %188, %173
  store i64 %189, ptr %172, align 8
  %190 = add nsw i64 %2, 56
  br label %261

191:
  %192 = phi i64 [ 0, %46 ], [ %193, %159 ]
  %193 = add nuw nsw i64 %192, 1
  %194 = shl nuw i64 1, %192
  %195 = and i64 %194, %34
  %196 = icmp eq i64 %195, 0
  br i1 %196, label %159, label %103

197:
  %198 = phi i64 [ 0, %115 ], [ %199, %257 ]
  %199 = add nuw nsw i64 %198, 1
  %200 = add nsw i64 %198, %117
  %201 = shl nsw i64 %200, 3
  %202 = add nsw i64 %201, %57
  %203 = inttoptr i64 %202 to ptr
  %204 = shl i64 %198, %79
  %205 = ashr i64 %204, %85
  br i1 %87, label %206, label %223

206:
  %207 = mul nsw i64 %91, %205
  %208 = add i64 %119, %207
  %209 = inttoptr i64 %208 to ptr
  switch i8 %93, label %217 [
    i8 4, label %210
    i8 8, label %213
    i8 2, label %215
  ]

210:
  %211 = load i32, ptr %209, align 4
  %212 = zext i32 %211 to i64
  br label %223

213:
  %214 = load i64, ptr %209, align 8
  br label %223

215:
  %216 = load i16, ptr %209, align 2
  br label %220

217:
  %218 = load i8, ptr %209, align 1
  %219 = zext i8 %218 to i16
  br label %220

220:
  %221 = phi i16 [ %216, %215 ], [ %219, %217 ]
  %222 = zext i16 %221 to i64
  br label %223

223:
  %224 = phi i64 [ %52, %197 ], [ %222, %220 ], [ %212, %210 ], [ %214, %213 ]
  %225 = mul nsw i64 %205, %40
  %226 = add nsw i64 %225, %114
  %227 = inttoptr i64 %226 to ptr
  switch i8 %94, label %235 [
    i8 4, label %228
    i8 8, label %231
    i8 2, label %233
  ]

228:
  %229 = load i32, ptr %227, align 4
  %230 = zext i32 %229 to i64
  br label %241

231:
  %232 = load i64, ptr %227, align 8
  br label %241

233:
  %234 = load i16, ptr %227, align 2
  br label %238

235:
  %236 = load i8, ptr %227, align 1
  %237 = zext i8 %236 to i16
  br label %238

238:
  %239 = phi i16 [ %234, %233 ], [ %237, %235 ]
  %240 = zext i16 %239 to i64
  br label %241

241:
  %242 = phi i64 [ %240, %238 ], [ %230, %228 ], [ %232, %231 ]
  %243 = and i64 %224, %99
  %244 = icmp ne i64 %242, %243
  %245 = add nsw i64 %201, %55
  %246 = inttoptr i64 %245 to ptr
  %247 = load i64, ptr %246, align 8
  %248 = icmp eq i64 %247, 0
  br i1 %248, label %249, label %254

249:
  %250 = load i64, ptr %203, align 8
  %251 = icmp eq i64 %250, 0
  %252 = select i1 %251, i1 true, i1 %244
  %253 = select i1 %252, i64 0, i64 2097152
  br label %257

254:
  %255 = and i64 %247, 3145728
  %256 = select i1 %244, i64 1048576, i64 %255
  br label %257

257:
  %258 = phi i64 [ %256, %254 ], [ %253, %249 ]
  %259 = or i64 %120, %258
  store i64 %259, ptr %246, align 8
  %260 = icmp eq i64 %199, %81
  br i1 %260, label %121, label %197

261:
  %262 = phi i64 [ %190, %186 ], [ 0, %24 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %262
}

define internal fastcc void @1(ptr noalias nonnull writeonly %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5, i64 %6, i8 %7) {
  %9 = icmp eq i8 %7, 0
  %10 = add nsw i64 %6, 8
  %11 = inttoptr i64 %10 to ptr
  %12 = load i32, ptr %11, align 4
  %13 = and i64 %3, 4
  %14 = icmp eq i64 %13, 0
  %15 = select i1 %14, i64 %5, i64 1
  %16 = zext i32 %12 to i64
  %17 = icmp eq i64 %15, %16
  br i1 %17, label %20, label %18

18:
  %19 = phi i8 [ 0, %23 ], [ 0, %141 ], [ 0, %8 ], [ 0, %173 ], [ 0, %131 ], [ 0, %78 ], [ 0, %70 ], [ 0, %81 ], [ 1, %200 ], [ 0, %97 ]
  store i8 %19, ptr %0, align 1
  ret void

20:
  %21 = or i1 %14, %9
  %22 = tail call i64 @llvm.ctpop.i64(i64 %4)
  br i1 %21, label %27, label %23

23:
  %24 = icmp ugt i64 %22, 1
  %25 = icmp ne i64 %4, 4294967295
  %26 = and i1 %25, %24
  br i1 %26, label %18, label %27

27:
  %28 = inttoptr i64 %2 to ptr
  %29 = getelementptr i8, ptr %28, i64 8
  %30 = load i64, ptr %29, align 8
  %31 = add nsw i64 %30, %1
  %32 = getelementptr i8, ptr %28, i64 16
  %33 = load i64, ptr %32, align 8
  %34 = getelementptr i8, ptr %28, i64 32
  %35 = load i64, ptr %34, align 8
  %36 = add nsw i64 %35, %1
  %37 = add nsw i64 %6, 16
  %38 = lshr i64 %3, 8
  %39 = and i64 %38, 255
  %40 = lshr i64 %3, 16
  %41 = and i64 %40, 255
  %42 = mul nuw nsw i64 %39, %41
  %43 = and i64 %3, 2
  %44 = icmp eq i64 %43, 0
  %45 = inttoptr i64 %31 to ptr
  %46 = trunc i64 %33 to i32
  %47 = and i64 %3, 128
  %48 = icmp eq i64 %47, 0
  %49 = inttoptr i64 %36 to ptr
  %50 = getelementptr i8, ptr %49, i64 152
  %51 = getelementptr i8, ptr %49, i64 144
  %52 = inttoptr i64 %37 to ptr
  %53 = icmp ult i64 %22, 2
  %54 = select i1 %14, i1 true, i1 %53
  %55 = add nsw i64 %42, -1
  br label %207

56:
  br i1 %44, label %61, label %57

57:
  %58 = getelementptr i64, ptr %45, i64 %213
  %59 = load i64, ptr %58, align 8
  %60 = add nsw i64 %59, %33
  br label %66

61:
  %62 = getelementptr i32, ptr %45, i64 %213
  %63 = load i32, ptr %62, align 4
  %64 = add i32 %63, %46
  %65 = zext i32 %64 to i64
  br label %66

66:
  %67 = phi i64 [ %65, %61 ], [ %60, %57 ]
  %68 = icmp slt i64 %212, 0
  %69 = select i1 %68, i64 %67, i64 %212
  br i1 %48, label %78, label %70

70:
  %71 = ashr i64 %67, 24
  %72 = load i64, ptr %50, align 8
  %73 = icmp slt i64 %71, %72
  br i1 %73, label %74, label %18

74:
  %75 = load i64, ptr %51, align 8
  %76 = shl nsw i64 %71, 8
  %77 = add nsw i64 %75, %76
  br label %78

78:
  %79 = phi i64 [ %36, %66 ], [ %77, %74 ]
  %80 = icmp eq i64 %79, 0
  br i1 %80, label %18, label %81

81:
  %82 = getelementptr i32, ptr %52, i64 %213
  %83 = load i32, ptr %82, align 4
  %84 = sub nsw i64 %67, %69
  %85 = trunc i64 %84 to i32
  %86 = icmp eq i32 %83, %85
  br i1 %86, label %87, label %18

87:
  %88 = icmp eq i64 %79, %211
  br i1 %88, label %97, label %89

89:
  %90 = inttoptr i64 %79 to ptr
  %91 = getelementptr i8, ptr %90, i64 24
  %92 = load i64, ptr %91, align 8
  %93 = getelementptr i8, ptr %90, i64 32
  %94 = load i64, ptr %93, align 8
  %95 = getelementptr i8, ptr %90, i64 48
  %96 = load i64, ptr %95, align 8
  br label %97

97:
  %98 = phi i64 [ %79, %89 ], [ %211, %87 ]
  %99 = phi i64 [ %92, %89 ], [ %210, %87 ]
  %100 = phi i64 [ %94, %89 ], [ %209, %87 ]
  %101 = phi i64 [ %96, %89 ], [ %208, %87 ]
  %102 = sub nsw i64 %67, %99
  %103 = select i1 %54, i64 %213, i64 32
  %104 = icmp sgt i64 %102, -1
  %105 = icmp slt i64 %102, %100
  %106 = select i1 %104, i1 %105, i1 false
  %107 = and i64 %102, %55
  %108 = icmp eq i64 %107, 0
  %109 = select i1 %106, i1 %108, i1 false
  br i1 %109, label %110, label %18

110:
  %111 = lshr i64 %102, 2
  %112 = add nuw nsw i64 %102, %42
  %113 = lshr i64 %112, 2
  %114 = sub nsw i64 %113, %111
  %115 = icmp slt i64 %114, 1
  br i1 %115, label %200, label %116

116:
  %117 = inttoptr i64 %101 to ptr
  %118 = inttoptr i64 %98 to ptr
  %119 = getelementptr i8, ptr %118, i64 128
  %120 = load i64, ptr %119, align 8
  %121 = getelementptr i8, ptr %118, i64 112
  %122 = load i64, ptr %121, align 8
  %123 = inttoptr i64 %122 to ptr
  %124 = getelementptr i8, ptr %118, i64 72
  %125 = getelementptr i8, ptr %118, i64 80
  %126 = getelementptr i8, ptr %118, i64 64
  %127 = getelementptr i8, ptr %118, i64 88
  %128 = getelementptr i8, ptr %118, i64 56
  %129 = getelementptr i8, ptr %118, i64 96
  %130 = icmp eq i64 %103, 32
  br label %218

131:
  %132 = icmp ne i64 %224, 9223371968135299073
  %133 = or i1 %9, %132
  br i1 %133, label %18, label %135

134:
  br i1 %9, label %198, label %135

135:
  %136 = load i64, ptr %124, align 8
  %137 = inttoptr i64 %136 to ptr
  %138 = getelementptr i32, ptr %137, i64 %220
  %139 = load i32, ptr %138, align 4
  %140 = icmp eq i32 %139, 0
  br i1 %140, label %158, label %141

141:
  %142 = sext i32 %139 to i64
  %143 = load i64, ptr %125, align 8
  %144 = inttoptr i64 %143 to ptr
  %145 = load i64, ptr %144, align 8
  %146 = inttoptr i64 %145 to ptr
  %147 = getelementptr i64, ptr %146, i64 %142
  %148 = load i64, ptr %147, align 8
  %149 = lshr i64 %148, 24
  %150 = and i64 %149, 4095
  %151 = icmp eq i64 %150, %120
  %152 = zext i1 %151 to i64
  %153 = getelementptr i64, ptr %123, i64 %150
  %154 = getelementptr i64, ptr %153, i64 %152
  %155 = load i64, ptr %154, align 8
  %156 = ashr i64 %148, 36
  %157 = icmp slt i64 %155, %156
  br i1 %157, label %18, label %158

158:
  %159 = load i64, ptr %126, align 8
  %160 = inttoptr i64 %159 to ptr
  %161 = getelementptr i8, ptr %160, i64 %220
  %162 = load i8, ptr %161, align 1
  %163 = and i8 %162, 2
  %164 = icmp eq i8 %163, 0
  br i1 %164, label %198, label %165

165:
  %166 = load i64, ptr %127, align 8
  %167 = inttoptr i64 %166 to ptr
  %168 = load i64, ptr %167, align 8
  %169 = tail call i64 @llvm.smax.i64(i64 %168, i64 0)
  br label %170

170:
  %171 = phi i64 [ 0, %165 ], [ %174, %173 ]
  %172 = icmp eq i64 %171, %169
  br i1 %172, label %198, label %173

173:
  %174 = add nuw i64 %171, 1
  %175 = load i64, ptr %128, align 8
  %176 = inttoptr i64 %175 to ptr
  %177 = load i64, ptr %176, align 8
  %178 = shl nsw i64 %171, 3
  %179 = load i64, ptr %129, align 8
  %180 = mul nsw i64 %178, %179
  %181 = add nsw i64 %180, %177
  %182 = inttoptr i64 %181 to ptr
  %183 = getelementptr i64, ptr %182, i64 %220
  %184 = load i64, ptr %183, align 8
  %185 = and i64 %184, 63
  %186 = icmp ne i64 %185, %103
  %187 = or i1 %130, %186
  %188 = lshr i64 %184, 24
  %189 = and i64 %188, 4095
  %190 = icmp eq i64 %189, %120
  %191 = select i1 %190, i1 %187, i1 false
  %192 = zext i1 %191 to i64
  %193 = getelementptr i64, ptr %123, i64 %189
  %194 = getelementptr i64, ptr %193, i64 %192
  %195 = load i64, ptr %194, align 8
  %196 = ashr i64 %184, 36
  %197 = icmp slt i64 %195, %196
  br i1 %197, label %18, label %170

198:
  %199 = icmp sgt i64 %219, 1
  br i1 %199, label %218, label %200

200:
  %201 = phi i64 [ %212, %207 ], [ %69, %110 ], [ %69, %198 ]
  %202 = phi i64 [ %211, %207 ], [ %98, %110 ], [ %98, %198 ]
  %203 = phi i64 [ %210, %207 ], [ %99, %110 ], [ %99, %198 ]
  %204 = phi i64 [ %209, %207 ], [ %100, %110 ], [ %100, %198 ]
  %205 = phi i64 [ %208, %207 ], [ %101, %110 ], [ %101, %198 ]
  %206 = icmp eq i64 %214, 32
  br i1 %206, label %18, label %207

207:
  %208 = phi i64 [ 0, %27 ], [ %205, %200 ]
  %209 = phi i64 [ 0, %27 ], [ %204, %200 ]
  %210 = phi i64 [ 0, %27 ], [ %203, %200 ]
  %211 = phi i64 [ 0, %27 ], [ %202, %200 ]
  %212 = phi i64 [ -1, %27 ], [ %201, %200 ]
  %213 = phi i64 [ 0, %27 ], [ %214, %200 ]
  %214 = add nuw nsw i64 %213, 1
  %215 = shl nuw i64 1, %213
  %216 = and i64 %215, %5
  %217 = icmp eq i64 %216, 0
  br i1 %217, label %200, label %56

218:
  %219 = phi i64 [ %114, %116 ], [ %221, %198 ]
  %220 = phi i64 [ %111, %116 ], [ %222, %198 ]
  %221 = add nsw i64 %219, -1
  %222 = add nuw nsw i64 %220, 1
  %223 = getelementptr i64, ptr %117, i64 %220
  %224 = load i64, ptr %223, align 8
  %225 = and i64 %224, 63
  %226 = icmp ne i64 %225, %103
  %227 = select i1 %226, i1 %9, i1 false
  %228 = select i1 %227, i64 32, i64 %103
  %229 = icmp ne i64 %225, %228
  %230 = lshr i64 %224, 24
  %231 = and i64 %230, 4095
  %232 = icmp eq i64 %231, %120
  %233 = select i1 %232, i1 %229, i1 false
  %234 = zext i1 %233 to i64
  %235 = getelementptr i64, ptr %123, i64 %231
  %236 = getelementptr i64, ptr %235, i64 %234
  %237 = load i64, ptr %236, align 8
  %238 = ashr i64 %224, 36
  %239 = icmp slt i64 %237, %238
  br i1 %239, label %131, label %134
}

define i64 @load_shared(i64 %0, i64 %1, i64 %2) {
  %4 = alloca i8, align 1
  call void @llvm.lifetime.start.p0(ptr nonnull %4)
  %5 = inttoptr i64 %2 to ptr
  %6 = getelementptr i8, ptr %5, i64 48
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr i8, ptr %5, i64 24
  %9 = load i64, ptr %8, align 8
  %10 = and i64 %7, 8
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %24, label %12

12:
  %13 = getelementptr i8, ptr %5, i64 40
  %14 = load i64, ptr %13, align 8
  %15 = add nsw i64 %14, %0
  %16 = inttoptr i64 %15 to ptr
  %17 = load i32, ptr %16, align 4
  %18 = trunc i64 %7 to i32
  %19 = lshr i32 %18, 4
  %20 = and i32 %19, 1
  %21 = add nsw i32 %20, -1
  %22 = xor i32 %17, %21
  %23 = zext i32 %22 to i64
  br label %24

24:
  %25 = phi i64 [ %23, %12 ], [ 4294967295, %3 ]
  %26 = and i64 %25, %1
  %27 = getelementptr i8, ptr %5, i64 32
  %28 = load i64, ptr %27, align 8
  %29 = add nsw i64 %28, %0
  %30 = and i64 %7, 4
  %31 = icmp eq i64 %30, 0
  %32 = sub nsw i64 0, %26
  %33 = select i1 %31, i64 4294967295, i64 %32
  %34 = and i64 %33, %26
  %35 = inttoptr i64 %29 to ptr
  %36 = getelementptr i8, ptr %35, i64 16
  %37 = load i64, ptr %36, align 8
  %38 = mul nsw i64 %9, 272
  %39 = add nsw i64 %37, %38
  %40 = lshr i64 %7, 8
  %41 = and i64 %40, 255
  %42 = lshr i64 %7, 16
  %43 = and i64 %42, 255
  %44 = mul nuw nsw i64 %41, %43
  %45 = icmp eq i64 %26, 0
  br i1 %45, label %46, label %48

46:
  %47 = add nsw i64 %2, 56
  br label %334

48:
  store i8 0, ptr %4, align 1
  call fastcc void @1(ptr %4, i64 %0, i64 %2, i64 %7, i64 %26, i64 %34, i64 %39, i8 0)
  %49 = load i8, ptr %4, align 1
  %50 = icmp eq i8 %49, 0
  br i1 %50, label %334, label %51

51:
  %52 = getelementptr i8, ptr %5, i64 8
  %53 = load i64, ptr %52, align 8
  %54 = add nsw i64 %53, %0
  %55 = getelementptr i8, ptr %5, i64 16
  %56 = load i64, ptr %55, align 8
  %57 = load i64, ptr %5, align 8
  %58 = and i64 %7, 2
  %59 = icmp eq i64 %58, 0
  %60 = inttoptr i64 %54 to ptr
  %61 = trunc i64 %56 to i32
  %62 = and i64 %7, 128
  %63 = icmp eq i64 %62, 0
  %64 = getelementptr i8, ptr %35, i64 152
  %65 = getelementptr i8, ptr %35, i64 144
  %66 = shl i64 %9, 6
  %67 = add nsw i64 %66, 128
  %68 = add nsw i64 %57, %0
  %69 = lshr i64 %7, 24
  %70 = and i64 %69, 255
  %71 = icmp eq i64 %41, 4
  %72 = icmp eq i64 %70, 4
  %73 = and i1 %71, %72
  %74 = and i1 %31, %73
  %75 = icmp eq i64 %43, 0
  %76 = trunc i64 %40 to i8
  %77 = and i64 %7, 1
  %78 = icmp ne i64 %77, 0
  %79 = icmp ult i64 %41, 8
  %80 = and i1 %78, %79
  %81 = shl nuw nsw i64 %41, 3
  %82 = add nsw i64 %81, -1
  %83 = shl nuw nsw i64 1, %82
  %84 = tail call i64 @llvm.umax.i64(i64 %70, i64 4)
  %85 = shl nuw nsw i64 %84, 5
  %86 = trunc i64 %69 to i8
  %87 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %88 = icmp ult i64 %87, 2
  %89 = add nsw i64 %39, 144
  %90 = inttoptr i64 %89 to ptr
  br label %305

91:
  br i1 %59, label %96, label %92

92:
  %93 = getelementptr i64, ptr %60, i64 %313
  %94 = load i64, ptr %93, align 8
  %95 = add nsw i64 %94, %56
  br label %101

96:
  %97 = getelementptr i32, ptr %60, i64 %313
  %98 = load i32, ptr %97, align 4
  %99 = add i32 %98, %61
  %100 = zext i32 %99 to i64
  br label %101

101:
  %102 = phi i64 [ %100, %96 ], [ %95, %92 ]
  br i1 %63, label %111, label %103

103:
  %104 = ashr i64 %102, 24
  %105 = load i64, ptr %64, align 8
  %106 = icmp slt i64 %104, %105
  br i1 %106, label %107, label %111

107:
  %108 = load i64, ptr %65, align 8
  %109 = shl nsw i64 %104, 8
  %110 = add nsw i64 %108, %109
  br label %111

111:
  %112 = phi i64 [ %29, %101 ], [ %110, %107 ], [ 0, %103 ]
  %113 = icmp eq i64 %112, %312
  br i1 %113, label %146, label %114

114:
  %115 = inttoptr i64 %112 to ptr
  %116 = getelementptr i8, ptr %115, i64 24
  %117 = load i64, ptr %116, align 8
  %118 = getelementptr i8, ptr %115, i64 40
  %119 = load i64, ptr %118, align 8
  %120 = getelementptr i8, ptr %115, i64 64
  %121 = load i64, ptr %120, align 8
  %122 = getelementptr i8, ptr %115, i64 120
  %123 = load i64, ptr %122, align 8
  %124 = getelementptr i8, ptr %115, i64 56
  %125 = load i64, ptr %124, align 8
  %126 = inttoptr i64 %125 to ptr
  %127 = load i64, ptr %126, align 8
  %128 = shl nsw i64 %123, 3
  %129 = getelementptr i8, ptr %115, i64 96
  %130 = load i64, ptr %129, align 8
  %131 = mul nsw i64 %128, %130
  %132 = add nsw i64 %131, %127
  %133 = getelementptr i8, ptr %115, i64 128
  %134 = load i64, ptr %133, align 8
  %135 = getelementptr i8, ptr %115, i64 112
  %136 = load i64, ptr %135, align 8
  %137 = inttoptr i64 %136 to ptr
  %138 = getelementptr i64, ptr %137, i64 %134
  %139 = load i64, ptr %138, align 8
  %140 = shl i64 %139, 36
  %141 = shl i64 %134, 24
  %142 = or i64 %141, %67
  %143 = or i64 %142, %140
  %144 = getelementptr i8, ptr %138, i64 8
  %145 = load i64, ptr %144, align 8
  br label %146

146:
  %147 = phi i64 [ %112, %114 ], [ %312, %111 ]
  %148 = phi i64 [ %117, %114 ], [ %311, %111 ]
  %149 = phi i64 [ %119, %114 ], [ %310, %111 ]
  %150 = phi i64 [ %121, %114 ], [ %309, %111 ]
  %151 = phi i64 [ %132, %114 ], [ %308, %111 ]
  %152 = phi i64 [ %143, %114 ], [ %307, %111 ]
  %153 = phi i64 [ %145, %114 ], [ %306, %111 ]
  %154 = sub i64 %102, %148
  %155 = add i64 %154, %149
  br i1 %74, label %160, label %156

156:
  br i1 %75, label %233, label %157

157:
  %158 = mul nuw nsw i64 %313, %70
  %159 = add i64 %158, %68
  br label %206

160:
  br i1 %75, label %236, label %161

161:
  %162 = inttoptr i64 %155 to ptr
  br label %196

163:
  %164 = xor i64 %226, %83
  %165 = sub nsw i64 %164, %83
  br label %166

166:
  %167 = phi i64 [ %165, %163 ], [ %226, %225 ], [ %216, %215 ]
  %168 = mul nuw nsw i64 %85, %207
  br i1 %31, label %184, label %169

169:
  %170 = add nsw i64 %168, %68
  %171 = trunc i64 %167 to i16
  %172 = trunc i64 %167 to i32
  %173 = trunc i64 %167 to i8
  br label %227

174:
  %175 = mul nuw nsw i64 %228, %70
  %176 = add nsw i64 %170, %175
  %177 = inttoptr i64 %176 to ptr
  switch i8 %86, label %181 [
    i8 4, label %178
    i8 8, label %179
    i8 2, label %180
  ]

178:
  store i32 %172, ptr %177, align 4
  br label %182

179:
  store i64 %167, ptr %177, align 8
  br label %182

180:
  store i16 %171, ptr %177, align 2
  br label %182

181:
  store i8 %173, ptr %177, align 1
  br label %182

182:
  %183 = icmp eq i64 %229, 32
  br i1 %183, label %194, label %227

184:
  %185 = add i64 %159, %168
  %186 = inttoptr i64 %185 to ptr
  switch i8 %86, label %192 [
    i8 4, label %187
    i8 8, label %189
    i8 2, label %190
  ]

187:
  %188 = trunc i64 %167 to i32
  store i32 %188, ptr %186, align 4
  br label %194

189:
  store i64 %167, ptr %186, align 8
  br label %194

190:
  %191 = trunc i64 %167 to i16
  store i16 %191, ptr %186, align 2
  br label %194

192:
  %193 = trunc i64 %167 to i8
  store i8 %193, ptr %186, align 1
  br label %194

194:
  %195 = icmp eq i64 %208, %43
  br i1 %195, label %233, label %206

196:
  %197 = phi i64 [ 0, %161 ], [ %198, %196 ]
  %198 = add nuw nsw i64 %197, 1
  %199 = getelementptr i32, ptr %162, i64 %197
  %200 = load i32, ptr %199, align 4
  %201 = shl nsw i64 %197, 7
  %202 = add nsw i64 %201, %68
  %203 = inttoptr i64 %202 to ptr
  %204 = getelementptr i32, ptr %203, i64 %313
  store i32 %200, ptr %204, align 4
  %205 = icmp eq i64 %198, %43
  br i1 %205, label %236, label %196

206:
  %207 = phi i64 [ 0, %157 ], [ %208, %194 ]
  %208 = add nuw nsw i64 %207, 1
  %209 = mul nuw nsw i64 %207, %41
  %210 = add nsw i64 %209, %155
  %211 = inttoptr i64 %210 to ptr
  switch i8 %76, label %219 [
    i8 4, label %212
    i8 8, label %215
    i8 2, label %217
  ]

212:
  %213 = load i32, ptr %211, align 4
  %214 = zext i32 %213 to i64
  br label %225

215:
  %216 = load i64, ptr %211, align 8
  br label %166

217:
  %218 = load i16, ptr %211, align 2
  br label %222

219:
  %220 = load i8, ptr %211, align 1
  %221 = zext i8 %220 to i16
  br label %222

222:
  %223 = phi i16 [ %218, %217 ], [ %221, %219 ]
  %224 = zext i16 %223 to i64
  br label %225

225:
  %226 = phi i64 [ %224, %222 ], [ %214, %212 ]
  br i1 %80, label %163, label %166

227:
  %228 = phi i64 [ 0, %169 ], [ %229, %182 ]
  %229 = add nuw nsw i64 %228, 1
  %230 = shl nuw i64 1, %228
  %231 = and i64 %230, %26
  %232 = icmp eq i64 %231, 0
  br i1 %232, label %182, label %174

233:
  br i1 %31, label %236, label %234

234:
  %235 = select i1 %88, i64 %313, i64 32
  br label %240

236:
  %237 = getelementptr i32, ptr %90, i64 %313
  %238 = load i32, ptr %237, align 4
  %239 = zext i32 %238 to i64
  br label %240

240:
  %241 = phi i64 [ %235, %234 ], [ %239, %236 ]
  %242 = ashr i64 %154, 2
  %243 = add nsw i64 %154, %44
  %244 = ashr i64 %243, 2
  %245 = sub nsw i64 %244, %242
  %246 = icmp slt i64 %245, 1
  br i1 %246, label %291, label %247

247:
  %248 = inttoptr i64 %151 to ptr
  %249 = inttoptr i64 %150 to ptr
  %250 = icmp ult i64 %245, 4
  br i1 %250, label %288, label %251

251:
  %252 = shl i64 %242, 3
  %253 = getelementptr i8, ptr %248, i64 %252
  %254 = shl i64 %244, 3
  %255 = getelementptr i8, ptr %248, i64 %254
  %256 = getelementptr i8, ptr %249, i64 %242
  %257 = getelementptr i8, ptr %249, i64 %244
  %258 = icmp ult ptr %253, %257
  %259 = icmp ult ptr %256, %255
  %260 = and i1 %258, %259
  br i1 %260, label %288, label %261

261:
  %262 = and i64 %245, 9223372036854775804
  %263 = and i64 %245, 3
  %264 = add i64 %242, %262
  %265 = insertelement <4 x i64> poison, i64 %241, i64 0
  %266 = shufflevector <4 x i64> %265, <4 x i64> poison, <4 x i32> zeroinitializer
  %267 = insertelement <4 x i64> poison, i64 %153, i64 0
  %268 = shufflevector <4 x i64> %267, <4 x i64> poison, <4 x i32> zeroinitializer
  %269 = insertelement <4 x i64> poison, i64 %152, i64 0
  %270 = shufflevector <4 x i64> %269, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %271

271:
  %272 = phi i64 [ 0, %261 ], [ %284, %271 ]
  %273 = add i64 %242, %272
  %274 = getelementptr i64, ptr %248, i64 %273
  %275 = load <4 x i64>, ptr %274, align 8
  %276 = and <4 x i64> %275, splat (i64 63)
  %277 = icmp ne <4 x i64> %276, %266
  %278 = ashr <4 x i64> %275, splat (i64 36)
  %279 = icmp slt <4 x i64> %268, %278
  %280 = select <4 x i1> %277, <4 x i1> %279, <4 x i1> zeroinitializer
  %281 = select <4 x i1> %280, <4 x i64> splat (i64 32), <4 x i64> %266
  %282 = or <4 x i64> %281, %270
  store <4 x i64> %282, ptr %274, align 8
  %283 = getelementptr i8, ptr %249, i64 %273
  store <4 x i8> splat (i8 3), ptr %283, align 1
  %284 = add nuw i64 %272, 4
  %285 = icmp eq i64 %284, %262
  br i1 %285, label %286, label %271

286:
  %287 = icmp eq i64 %245, %262
  br i1 %287, label %291, label %288

288:
  %289 = phi i64 [ %245, %251 ], [ %245, %247 ], [ %263, %286 ]
  %290 = phi i64 [ %242, %251 ], [ %242, %247 ], [ %264, %286 ]
  br label %318

291:
  %292 = phi i64 [ %312, %305 ], [ %147, %240 ], [ %147, %286 ], [ %147, %318 ]
  %293 = phi i64 [ %311, %305 ], [ %148, %240 ], [ %148, %286 ], [ %148, %318 ]
  %294 = phi i64 [ %310, %305 ], [ %149, %240 ], [ %149, %286 ], [ %149, %318 ]
  %295 = phi i64 [ %309, %305 ], [ %150, %240 ], [ %150, %286 ], [ %150, %318 ]
  %296 = phi i64 [ %308, %305 ], [ %151, %240 ], [ %151, %286 ], [ %151, %318 ]
  %297 = phi i64 [ %307, %305 ], [ %152, %240 ], [ %152, %286 ], [ %152, %318 ]
  %298 = phi i64 [ %306, %305 ], [ %153, %240 ], [ %153, %286 ], [ %153, %318 ]
  %299 = icmp eq i64 %314, 32
  br i1 %299, label %300, label %305

300:
  %301 = inttoptr i64 %39 to ptr
  %302 = load i64, ptr %301, align 8
  %303 = add nsw i64 %302, 1
  store i64 %303, ptr %301, align 8
  %304 = add nsw i64 %2, 56
  br label %334

305:
  %306 = phi i64 [ 0, %51 ], [ %298, %291 ]
  %307 = phi i64 [ 0, %51 ], [ %297, %291 ]
  %308 = phi i64 [ 0, %51 ], [ %296, %291 ]
  %309 = phi i64 [ 0, %51 ], [ %295, %291 ]
  %310 = phi i64 [ 0, %51 ], [ %294, %291 ]
  %311 = phi i64 [ 0, %51 ], [ %293, %291 ]
  %312 = phi i64 [ 0, %51 ], [ %292, %291 ]
  %313 = phi i64 [ 0, %51 ], [ %314, %291 ]
  %314 = add nuw nsw i64 %313, 1
  %315 = shl nuw i64 1, %313
  %316 = and i64 %315, %34
  %317 = icmp eq i64 %316, 0
  br i1 %317, label %291, label %91

318:
  %319 = phi i64 [ %321, %318 ], [ %289, %288 ]
  %320 = phi i64 [ %322, %318 ], [ %290, %288 ]
  %321 = add nsw i64 %319, -1
  %322 = add nsw i64 %320, 1
  %323 = getelementptr i64, ptr %248, i64 %320
  %324 = load i64, ptr %323, align 8
  %325 = and i64 %324, 63
  %326 = icmp ne i64 %325, %241
  %327 = ashr i64 %324, 36
  %328 = icmp slt i64 %153, %327
  %329 = select i1 %326, i1 %328, i1 false
  %330 = select i1 %329, i64 32, i64 %241
  %331 = or i64 %330, %152
  store i64 %331, ptr %323, align 8
  %332 = getelementptr i8, ptr %249, i64 %320
  store i8 3, ptr %332, align 1
  %333 = icmp ugt i64 %319, 1
  br i1 %333, label %318, label %291

334:
  %335 = phi i64 [ %47, %46 ], [ %304, %300 ], [ 0, %48 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %335
}

define i64 @store_shared(i64 %0, i64 %1, i64 %2) {
  %4 = alloca i8, align 1
  call void @llvm.lifetime.start.p0(ptr nonnull %4)
  %5 = inttoptr i64 %2 to ptr
  %6 = getelementptr i8, ptr %5, i64 48
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr i8, ptr %5, i64 24
  %9 = load i64, ptr %8, align 8
  %10 = and i64 %7, 8
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %24, label %12

12:
  %13 = getelementptr i8, ptr %5, i64 40
  %14 = load i64, ptr %13, align 8
  %15 = add nsw i64 %14, %0
  %16 = inttoptr i64 %15 to ptr
  %17 = load i32, ptr %16, align 4
  %18 = trunc i64 %7 to i32
  %19 = lshr i32 %18, 4
  %20 = and i32 %19, 1
  %21 = add nsw i32 %20, -1
  %22 = xor i32 %17, %21
  %23 = zext i32 %22 to i64
  br label %24

24:
  %25 = phi i64 [ %23, %12 ], [ 4294967295, %3 ]
  %26 = and i64 %25, %1
  %27 = getelementptr i8, ptr %5, i64 32
  %28 = load i64, ptr %27, align 8
  %29 = add nsw i64 %28, %0
  %30 = and i64 %7, 4
  %31 = icmp eq i64 %30, 0
  %32 = sub nsw i64 0, %26
  %33 = select i1 %31, i64 4294967295, i64 %32
  %34 = and i64 %33, %26
  %35 = inttoptr i64 %29 to ptr
  %36 = getelementptr i8, ptr %35, i64 16
  %37 = load i64, ptr %36, align 8
  %38 = mul nsw i64 %9, 272
  %39 = add nsw i64 %37, %38
  %40 = lshr i64 %7, 8
  %41 = and i64 %40, 255
  %42 = lshr i64 %7, 16
  %43 = and i64 %42, 255
  %44 = mul nuw nsw i64 %41, %43
  %45 = icmp eq i64 %26, 0
  br i1 %45, label %46, label %48

46:
  %47 = add nsw i64 %2, 56
  br label %251

48:
  store i8 0, ptr %4, align 1
  call fastcc void @1(ptr %4, i64 %0, i64 %2, i64 %7, i64 %26, i64 %34, i64 %39, i8 1)
  %49 = load i8, ptr %4, align 1
  %50 = icmp eq i8 %49, 0
  br i1 %50, label %251, label %51

51:
  %52 = getelementptr i8, ptr %5, i64 8
  %53 = load i64, ptr %52, align 8
  %54 = add nsw i64 %53, %0
  %55 = getelementptr i8, ptr %5, i64 16
  %56 = load i64, ptr %55, align 8
  %57 = load i64, ptr %5, align 8
  %58 = and i64 %7, 2
  %59 = icmp eq i64 %58, 0
  %60 = inttoptr i64 %54 to ptr
  %61 = trunc i64 %56 to i32
  %62 = and i64 %7, 128
  %63 = icmp eq i64 %62, 0
  %64 = getelementptr i8, ptr %35, i64 152
  %65 = getelementptr i8, ptr %35, i64 144
  %66 = shl i64 %9, 6
  %67 = add nsw i64 %66, 128
  %68 = icmp eq i64 %43, 0
  %69 = and i64 %7, 32
  %70 = icmp eq i64 %69, 0
  %71 = lshr i64 %7, 24
  %72 = and i64 %71, 255
  %73 = tail call i64 @llvm.umax.i64(i64 %72, i64 4)
  %74 = shl nuw nsw i64 %73, 5
  %75 = add nsw i64 %57, %0
  %76 = trunc i64 %71 to i8
  %77 = trunc i64 %40 to i8
  %78 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %79 = icmp ult i64 %78, 2
  %80 = select i1 %31, i1 true, i1 %79
  br label %230

81:
  br i1 %59, label %86, label %82

82:
  %83 = getelementptr i64, ptr %60, i64 %237
  %84 = load i64, ptr %83, align 8
  %85 = add nsw i64 %84, %56
  br label %91

86:
  %87 = getelementptr i32, ptr %60, i64 %237
  %88 = load i32, ptr %87, align 4
  %89 = add i32 %88, %61
  %90 = zext i32 %89 to i64
  br label %91

91:
  %92 = phi i64 [ %90, %86 ], [ %85, %82 ]
  br i1 %63, label %101, label %93

93:
  %94 = ashr i64 %92, 24
  %95 = load i64, ptr %64, align 8
  %96 = icmp slt i64 %94, %95
  br i1 %96, label %97, label %101

97:
  %98 = load i64, ptr %65, align 8
  %99 = shl nsw i64 %94, 8
  %100 = add nsw i64 %98, %99
  br label %101

101:
  %102 = phi i64 [ %29, %91 ], [ %100, %97 ], [ 0, %93 ]
  %103 = icmp eq i64 %102, %236
  br i1 %103, label %125, label %104

104:
  %105 = inttoptr i64 %102 to ptr
  %106 = getelementptr i8, ptr %105, i64 24
  %107 = load i64, ptr %106, align 8
  %108 = getelementptr i8, ptr %105, i64 40
  %109 = load i64, ptr %108, align 8
  %110 = getelementptr i8, ptr %105, i64 64
  %111 = load i64, ptr %110, align 8
  %112 = getelementptr i8, ptr %105, i64 48
  %113 = load i64, ptr %112, align 8
  %114 = getelementptr i8, ptr %105, i64 128
  %115 = load i64, ptr %114, align 8
  %116 = getelementptr i8, ptr %105, i64 112
  %117 = load i64, ptr %116, align 8
  %118 = inttoptr i64 %117 to ptr
  %119 = getelementptr i64, ptr %118, i64 %115
  %120 = load i64, ptr %119, align 8
  %121 = shl i64 %120, 36
  %122 = shl i64 %115, 24
  %123 = or i64 %122, %67
  %124 = or i64 %123, %121
  br label %125

125:
  %126 = phi i64 [ %102, %104 ], [ %236, %101 ]
  %127 = phi i64 [ %107, %104 ], [ %235, %101 ]
  %128 = phi i64 [ %109, %104 ], [ %234, %101 ]
  %129 = phi i64 [ %111, %104 ], [ %233, %101 ]
  %130 = phi i64 [ %113, %104 ], [ %232, %101 ]
  %131 = phi i64 [ %124, %104 ], [ %231, %101 ]
  br i1 %68, label %132, label %134

132:
  %133 = sub nsw i64 %92, %127
  br label %173

134:
  %135 = mul nuw nsw i64 %237, %72
  %136 = add i64 %75, %135
  %137 = sub i64 %92, %127
  %138 = add i64 %137, %128
  br label %139

139:
  %140 = phi i64 [ 0, %134 ], [ %141, %171 ]
  %141 = add nuw nsw i64 %140, 1
  br i1 %70, label %142, label %159

142:
  %143 = mul nuw nsw i64 %74, %140
  %144 = add i64 %136, %143
  %145 = inttoptr i64 %144 to ptr
  switch i8 %76, label %153 [
    i8 4, label %146
    i8 8, label %149
    i8 2, label %151
  ]

146:
  %147 = load i32, ptr %145, align 4
  %148 = zext i32 %147 to i64
  br label %159

149:
  %150 = load i64, ptr %145, align 8
  br label %159

151:
  %152 = load i16, ptr %145, align 2
  br label %156

153:
  %154 = load i8, ptr %145, align 1
  %155 = zext i8 %154 to i16
  br label %156

156:
  %157 = phi i16 [ %152, %151 ], [ %155, %153 ]
  %158 = zext i16 %157 to i64
  br label %159

159:
  %160 = phi i64 [ %57, %139 ], [ %158, %156 ], [ %148, %146 ], [ %150, %149 ]
  %161 = mul nuw nsw i64 %140, %41
  %162 = add nsw i64 %138, %161
  %163 = inttoptr i64 %162 to ptr
  switch i8 %77, label %169 [
    i8 4, label %164
    i8 8, label %166
    i8 2, label %167
  ]

164:
  %165 = trunc i64 %160 to i32
  store i32 %165, ptr %163, align 4
  br label %171

166:
  store i64 %160, ptr %163, align 8
  br label %171

167:
  %168 = trunc i64 %160 to i16
  store i16 %168, ptr %163, align 2
  br label %171

169:
  %170 = trunc i64 %160 to i8
  store i8 %170, ptr %163, align 1
  br label %171

171:
  %172 = icmp eq i64 %141, %43
  br i1 %172, label %173, label %139

173:
  %174 = phi i64 [ %133, %132 ], [ %137, %171 ]
  %175 = ashr i64 %174, 2
  %176 = add nsw i64 %174, %44
  %177 = ashr i64 %176, 2
  %178 = sub nsw i64 %177, %175
  %179 = icmp slt i64 %178, 1
  br i1 %179, label %210, label %180

180:
  %181 = select i1 %80, i64 %237, i64 32
  %182 = inttoptr i64 %129 to ptr
  %183 = inttoptr i64 %126 to ptr
  %184 = getelementptr i8, ptr %183, i64 88
  %185 = getelementptr i8, ptr %183, i64 56
  %186 = getelementptr i8, ptr %183, i64 96
  %187 = inttoptr i64 %130 to ptr
  %188 = or i64 %131, %181
  br label %242

189:
  %190 = load i64, ptr %184, align 8
  %191 = inttoptr i64 %190 to ptr
  %192 = load i64, ptr %191, align 8
  %193 = icmp slt i64 %192, 1
  br i1 %193, label %207, label %194

194:
  %195 = phi i64 [ %196, %194 ], [ 0, %189 ]
  %196 = add nuw nsw i64 %195, 1
  %197 = load i64, ptr %185, align 8
  %198 = inttoptr i64 %197 to ptr
  %199 = load i64, ptr %198, align 8
  %200 = shl nsw i64 %195, 3
  %201 = load i64, ptr %186, align 8
  %202 = mul nsw i64 %200, %201
  %203 = add nsw i64 %202, %199
  %204 = inttoptr i64 %203 to ptr
  %205 = getelementptr i64, ptr %204, i64 %244
  store i64 0, ptr %205, align 8
  %206 = icmp eq i64 %192, %196
  br i1 %206, label %207, label %194

207:
  %208 = getelementptr i64, ptr %187, i64 %244
  store i64 %188, ptr %208, align 8
  store i8 1, ptr %247, align 1
  %209 = icmp ugt i64 %243, 1
  br i1 %209, label %242, label %210

210:
  %211 = phi i64 [ %236, %230 ], [ %126, %173 ], [ %126, %207 ]
  %212 = phi i64 [ %235, %230 ], [ %127, %173 ], [ %127, %207 ]
  %213 = phi i64 [ %234, %230 ], [ %128, %173 ], [ %128, %207 ]
  %214 = phi i64 [ %233, %230 ], [ %129, %173 ], [ %129, %207 ]
  %215 = phi i64 [ %232, %230 ], [ %130, %173 ], [ %130, %207 ]
  %216 = phi i64 [ %231, %230 ], [ %131, %173 ], [ %131, %207 ]
  %217 = icmp eq i64 %238, 32
  br i1 %217, label %218, label %230

218:
  %219 = getelementptr i8, ptr %35, i64 104
  %220 = load i64, ptr %219, align 8
  %221 = inttoptr i64 %220 to ptr
  %222 = getelementptr i32, ptr %221, i64 %9
  %223 = load i32, ptr %222, align 4
  %224 = trunc nuw i64 %26 to i32
  %225 = or i32 %223, %224
  store i32 %225, ptr %222, align 4
  %226 = inttoptr i64 %39 to ptr
  %227 = load i64, ptr %226, align 8
  %228 = add nsw i64 %227, 1
  store i64 %228, ptr %226, align 8
  %229 = add nsw i64 %2, 56
  br label %251

230:
  %231 = phi i64 [ 0, %51 ], [ %216, %210 ]
  %232 = phi i64 [ 0, %51 ], [ %215, %210 ]
  %233 = phi i64 [ 0, %51 ], [ %214, %210 ]
  %234 = phi i64 [ 0, %51 ], [ %213, %210 ]
  %235 = phi i64 [ 0, %51 ], [ %212, %210 ]
  %236 = phi i64 [ 0, %51 ], [ %211, %210 ]
  %237 = phi i64 [ 0, %51 ], [ %238, %210 ]
  %238 = add nuw nsw i64 %237, 1
  %239 = shl nuw i64 1, %237
  %240 = and i64 %239, %34
  %241 = icmp eq i64 %240, 0
  br i1 %241, label %210, label %81

242:
  %243 = phi i64 [ %178, %180 ], [ %245, %207 ]
  %244 = phi i64 [ %175, %180 ], [ %246, %207 ]
  %245 = add nsw i64 %243, -1
  %246 = add nsw i64 %244, 1
  %247 = getelementptr i8, ptr %182, i64 %244
  %248 = load i8, ptr %247, align 1
  %249 = and i8 %248, 2
  %250 = icmp eq i8 %249, 0
  br i1 %250, label %207, label %189

251:
  %252 = phi i64 [ %47, %46 ], [ %229, %218 ], [ 0, %48 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %252
}

declare i64 @llvm.ctpop.i64(i64)

declare i64 @llvm.umax.i64(i64, i64)

declare void @llvm.lifetime.start.p0(ptr)

declare void @llvm.lifetime.end.p0(ptr)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.vector.reduce.add.v4i64(<4 x i64>)


