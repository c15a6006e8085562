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
  %35 = getelementptr i8, ptr %34, i64 144
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
  %56 = icmp eq i64 %55, 0
  %57 = getelementptr i8, ptr %53, i64 24
  %58 = load i64, ptr %57, align 8
  %59 = getelementptr i8, ptr %35, i64 120
  %60 = load i64, ptr %59, align 8
  %61 = inttoptr i64 %60 to ptr
  %62 = getelementptr i8, ptr %35, i64 136
  %63 = load i64, ptr %62, align 8
  %64 = getelementptr i64, ptr %61, i64 %63
  %65 = load i64, ptr %64, align 8
  %66 = shl i64 %65, 40
  %67 = getelementptr i8, ptr %35, i64 144
  %68 = load i64, ptr %67, align 8
  %69 = shl i64 %68, 22
  %70 = shl i64 %9, 6
  %71 = add i64 %70, 64
  %72 = and i64 %7, 2
  %73 = icmp eq i64 %72, 0
  %74 = inttoptr i64 %49 to ptr
  %75 = trunc i64 %51 to i32
  %76 = add nsw i64 %52, %0
  %77 = lshr i64 %7, 24
  %78 = and i64 %77, 255
  %79 = icmp eq i64 %40, 4
  %80 = icmp eq i64 %78, 4
  %81 = and i1 %79, %80
  %82 = and i1 %31, %81
  %83 = icmp eq i64 %42, 0
  %84 = trunc i64 %39 to i8
  %85 = and i64 %7, 1
  %86 = icmp ne i64 %85, 0
  %87 = icmp ult i64 %40, 8
  %88 = and i1 %86, %87
  %89 = shl nuw nsw i64 %40, 3
  %90 = add nsw i64 %89, -1
  %91 = shl nuw nsw i64 1, %90
  %92 = tail call i64 @llvm.umax.i64(i64 %78, i64 4)
  %93 = shl nuw nsw i64 %92, 5
  %94 = trunc i64 %77 to i8
  %95 = ashr i64 %7, 32
  %96 = lshr i64 %43, %95
  %97 = icmp eq i64 %96, 0
  %98 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %99 = icmp ult i64 %98, 2
  %100 = select i1 %31, i1 true, i1 %99
  %101 = or i64 %66, %71
  %102 = or i64 %101, %69
  %103 = select i1 %56, i1 true, i1 %97
  br label %222

104:
  br i1 %73, label %109, label %105

105:
  %106 = getelementptr i64, ptr %74, i64 %223
  %107 = load i64, ptr %106, align 8
  %108 = add nsw i64 %107, %51
  br label %114

109:
  %110 = getelementptr i32, ptr %74, i64 %223
  %111 = load i32, ptr %110, align 4
  %112 = add i32 %111, %75
  %113 = zext i32 %112 to i64
  br label %114

114:
  %115 = phi i64 [ %113, %109 ], [ %108, %105 ]
  br i1 %82, label %120, label %116

116:
  br i1 %83, label %193, label %117

117:
  %118 = mul nuw nsw i64 %223, %78
  %119 = add i64 %118, %76
  br label %166

120:
  br i1 %83, label %193, label %121

121:
  %122 = inttoptr i64 %115 to ptr
  br label %156

123:
  %124 = xor i64 %186, %91
  %125 = sub nsw i64 %124, %91
  br label %126

126:
  %127 = phi i64 [ %125, %123 ], [ %186, %185 ], [ %176, %175 ]
  %128 = mul nuw nsw i64 %93, %167
  br i1 %31, label %144, label %129

129:
  %130 = add nsw i64 %128, %76
  %131 = trunc i64 %127 to i16
  %132 = trunc i64 %127 to i32
  %133 = trunc i64 %127 to i8
  br label %187

134:
  %135 = mul nuw nsw i64 %188, %78
  %136 = add nsw i64 %130, %135
  %137 = inttoptr i64 %136 to ptr
  switch i8 %94, label %141 [
    i8 4, label %138
    i8 8, label %139
    i8 2, label %140
  ]

138:
  store i32 %132, ptr %137, align 4
  br label %142

139:
  store i64 %127, ptr %137, align 8
  br label %142

140:
  store i16 %131, ptr %137, align 2
  br label %142

141:
  store i8 %133, ptr %137, align 1
  br label %142

142:
  %143 = icmp eq i64 %189, 32
  br i1 %143, label %154, label %187

144:
  %145 = add i64 %119, %128
  %146 = inttoptr i64 %145 to ptr
  switch i8 %94, label %152 [
    i8 4, label %147
    i8 8, label %149
    i8 2, label %150
  ]

147:
  %148 = trunc i64 %127 to i32
  store i32 %148, ptr %146, align 4
  br label %154

149:
  store i64 %127, ptr %146, align 8
  br label %154

150:
  %151 = trunc i64 %127 to i16
  store i16 %151, ptr %146, align 2
  br label %154

152:
  %153 = trunc i64 %127 to i8
  store i8 %153, ptr %146, align 1
  br label %154

154:
  %155 = icmp eq i64 %168, %42
  br i1 %155, label %193, label %166

156:
  %157 = phi i64 [ 0, %121 ], [ %158, %156 ]
  %158 = add nuw nsw i64 %157, 1
  %159 = getelementptr i32, ptr %122, i64 %157
  %160 = load i32, ptr %159, align 4
  %161 = shl nsw i64 %157, 7
  %162 = add nsw i64 %161, %76
  %163 = inttoptr i64 %162 to ptr
  %164 = getelementptr i32, ptr %163, i64 %223
  store i32 %160, ptr %164, align 4
  %165 = icmp eq i64 %158, %42
  br i1 %165, label %193, label %156

166:
  %167 = phi i64 [ 0, %117 ], [ %168, %154 ]
  %168 = add nuw nsw i64 %167, 1
  %169 = mul nuw nsw i64 %167, %40
  %170 = add nsw i64 %169, %115
  %171 = inttoptr i64 %170 to ptr
  switch i8 %84, label %179 [
    i8 4, label %172
    i8 8, label %175
    i8 2, label %177
  ]

172:
  %173 = load i32, ptr %171, align 4
  %174 = zext i32 %173 to i64
  br label %185

175:
  %176 = load i64, ptr %171, align 8
  br label %126

177:
  %178 = load i16, ptr %171, align 2
  br label %182

179:
  %180 = load i8, ptr %171, align 1
  %181 = zext i8 %180 to i16
  br label %182

182:
  %183 = phi i16 [ %178, %177 ], [ %181, %179 ]
  %184 = zext i16 %183 to i64
  br label %185

185:
  %186 = phi i64 [ %184, %182 ], [ %174, %172 ]
  br i1 %88, label %123, label %126

187:
  %188 = phi i64 [ 0, %129 ], [ %189, %142 ]
  %189 = add nuw nsw i64 %188, 1
  %190 = shl nuw i64 1, %188
  %191 = and i64 %190, %26
  %192 = icmp eq i64 %191, 0
  br i1 %192, label %142, label %134

193:
  br i1 %103, label %198, label %194

194:
  %195 = select i1 %100, i64 %223, i64 32
  %196 = or i64 %102, %195
  %197 = ashr i64 %115, %95
  br label %228

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
  %229 = phi i64 [ 0, %194 ], [ %230, %228 ]
  %230 = add nuw nsw i64 %229, 1
  %231 = add nsw i64 %229, %197
  %232 = shl nsw i64 %231, 3
  %233 = add nsw i64 %232, %58
  %234 = inttoptr i64 %233 to ptr
  store i64 %196, ptr %234, align 8
  %235 = icmp eq i64 %230, %96
  br i1 %235, label %198, label %228

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
  %47 = getelementptr i8, ptr %35, i64 112
  %48 = load i64, ptr %47, align 8
  %49 = inttoptr i64 %48 to ptr
  %50 = getelementptr i32, ptr %49, i64 %9
  %51 = load i32, ptr %50, align 4
  %52 = trunc nuw i64 %26 to i32
  %53 = or i32 %51, %52
  store i32 %53, ptr %50, align 4
  %54 = getelementptr i8, ptr %5, i64 8
  %55 = load i64, ptr %54, align 8
  %56 = add nsw i64 %55, %0
  %57 = getelementptr i8, ptr %5, i64 16
  %58 = load i64, ptr %57, align 8
  %59 = load i64, ptr %5, align 8
  %60 = inttoptr i64 %38 to ptr
  %61 = getelementptr i8, ptr %60, i64 16
  %62 = load i64, ptr %61, align 8
  %63 = icmp eq i64 %62, 0
  %64 = getelementptr i8, ptr %60, i64 24
  %65 = load i64, ptr %64, align 8
  %66 = getelementptr i8, ptr %35, i64 120
  %67 = load i64, ptr %66, align 8
  %68 = inttoptr i64 %67 to ptr
  %69 = getelementptr i8, ptr %35, i64 136
  %70 = load i64, ptr %69, align 8
  %71 = getelementptr i64, ptr %68, i64 %70
  %72 = load i64, ptr %71, align 8
  %73 = shl i64 %72, 40
  %74 = getelementptr i8, ptr %35, i64 144
  %75 = load i64, ptr %74, align 8
  %76 = shl i64 %75, 22
  %77 = shl i64 %9, 6
  %78 = add i64 %77, 64
  %79 = and i64 %7, 2
  %80 = icmp eq i64 %79, 0
  %81 = inttoptr i64 %56 to ptr
  %82 = trunc i64 %58 to i32
  %83 = ashr i64 %7, 32
  %84 = lshr i64 %43, %83
  %85 = icmp eq i64 %84, 0
  %86 = lshr i64 %40, 1
  %87 = lshr i64 %40, 3
  %88 = sub nsw i64 %86, %87
  %89 = and i64 %7, 32
  %90 = icmp eq i64 %89, 0
  %91 = lshr i64 %7, 24
  %92 = and i64 %91, 255
  %93 = tail call i64 @llvm.umax.i64(i64 %92, i64 4)
  %94 = shl nuw nsw i64 %93, 5
  %95 = add nsw i64 %59, %0
  %96 = trunc i64 %91 to i8
  %97 = trunc i64 %39 to i8
  %98 = icmp eq i64 %40, 8
  %99 = shl nuw nsw i64 %40, 3
  %100 = shl nsw i64 -1, %99
  %101 = xor i64 %100, -1
  %102 = select i1 %98, i64 -1, i64 %101
  %103 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %104 = icmp ult i64 %103, 2
  %105 = select i1 %31, i1 true, i1 %104
  %106 = or i64 %73, %78
  %107 = or i64 %106, %76
  %108 = icmp eq i64 %42, 0
  %109 = select i1 %63, i1 true, i1 %85
  br label %191

110:
  br i1 %80, label %115, label %111

111:
  %112 = getelementptr i64, ptr %81, i64 %192
  %113 = load i64, ptr %112, align 8
  %114 = add nsw i64 %113, %58
  br label %120

115:
  %116 = getelementptr i32, ptr %81, i64 %192
  %117 = load i32, ptr %116, align 4
  %118 = add i32 %117, %82
  %119 = zext i32 %118 to i64
  br label %120

120:
  %121 = phi i64 [ %119, %115 ], [ %114, %111 ]
  br i1 %109, label %128, label %122

122:
  %123 = mul nuw nsw i64 %192, %92
  %124 = add i64 %95, %123
  %125 = ashr i64 %121, %83
  %126 = select i1 %105, i64 %192, i64 32
  %127 = or i64 %107, %126
  br label %197

128:
  br i1 %108, label %166, label %129

129:
  %130 = mul nuw nsw i64 %192, %92
  %131 = add i64 %95, %130
  br label %132

132:
  %133 = phi i64 [ 0, %129 ], [ %134, %164 ]
  %134 = add nuw nsw i64 %133, 1
  br i1 %90, label %135, label %152

135:
  %136 = mul nuw nsw i64 %94, %133
  %137 = add i64 %131, %136
  %138 = inttoptr i64 %137 to ptr
  switch i8 %96, label %146 [
    i8 4, label %139
    i8 8, label %142
    i8 2, label %144
  ]

139:
  %140 = load i32, ptr %138, align 4
  %141 = zext i32 %140 to i64
  br label %152

142:
  %143 = load i64, ptr %138, align 8
  br label %152

144:
  %145 = load i16, ptr %138, align 2
  br label %149

146:
  %147 = load i8, ptr %138, align 1
  %148 = zext i8 %147 to i16
  br label %149

149:
  %150 = phi i16 [ %145, %144 ], [ %148, %146 ]
  %151 = zext i16 %150 to i64
  br label %152

152:
  %153 = phi i64 [ %59, %132 ], [ %151, %149 ], [ %141, %139 ], [ %143, %142 ]
  %154 = mul nuw nsw i64 %133, %40
  %155 = add nsw i64 %154, %121
  %156 = inttoptr i64 %155 to ptr
  switch i8 %97, label %162 [
    i8 4, label %157
    i8 8, label %159
    i8 2, label %160
  ]

157:
  %158 = trunc i64 %153 to i32
  store i32 %158, ptr %156, align 4
  br label %164

159:
  store i64 %153, ptr %156, align 8
  br label %164

160:
  %161 = trunc i64 %153 to i16
  store i16 %161, ptr %156, align 2
  br label %164

162:
  %163 = trunc i64 %153 to i8
  store i8 %163, ptr %156, align 1
  br label %164

164:
  %165 = icmp eq i64 %134, %42
  br i1 %165, label %166, label %132

166:
  %167 = icmp eq i64 %193, 32
  br i1 %167, label %168, label %191

168:
  %169 = getelementptr i8, ptr %35, i64 8
  %170 = load i64, ptr %169, align 8
  %171 = inttoptr i64 %170 to ptr
  %172 = getelementptr i8, ptr %171, i64 8
  %173 = load i64, ptr %172, align 8
  %174 = insertelement <4 x i64> poison, i64 %34, i64 0
  %175 = shufflevector <4 x i64> %174, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %176

176:
  %177 = phi i64 [ 0, %168 ], [ %183, %176 ]
  %178 = phi <4 x i64> [ zeroinitializer, %168 ], [ %182, %176 ]
  %179 = phi <4 x i64> [ <i64 0, i64 1, i64 2, i64 3>, %168 ], [ %184, %176 ]
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
  %192 = phi i64 [ 0, %46 ], [ %193, %166 ]
  %193 = add nuw nsw i64 %192, 1
  %194 = shl nuw i64 1, %192
  %195 = and i64 %194, %34
  %196 = icmp eq i64 %195, 0
  br i1 %196, label %166, label %110

197:
  %198 = phi i64 [ 0, %122 ], [ %199, %257 ]
  %199 = add nuw nsw i64 %198, 1
  %200 = shl i64 %198, %83
  %201 = ashr i64 %200, %88
  br i1 %90, label %202, label %219

202:
  %203 = mul nsw i64 %94, %201
  %204 = add i64 %124, %203
  %205 = inttoptr i64 %204 to ptr
  switch i8 %96, label %213 [
    i8 4, label %206
    i8 8, label %209
    i8 2, label %211
  ]

206:
  %207 = load i32, ptr %205, align 4
  %208 = zext i32 %207 to i64
  br label %219

209:
  %210 = load i64, ptr %205, align 8
  br label %219

211:
  %212 = load i16, ptr %205, align 2
  br label %216

213:
  %214 = load i8, ptr %205, align 1
  %215 = zext i8 %214 to i16
  br label %216

216:
  %217 = phi i16 [ %212, %211 ], [ %215, %213 ]
  %218 = zext i16 %217 to i64
  br label %219

219:
  %220 = phi i64 [ %59, %197 ], [ %218, %216 ], [ %208, %206 ], [ %210, %209 ]
  %221 = mul nsw i64 %201, %40
  %222 = add nsw i64 %221, %121
  %223 = inttoptr i64 %222 to ptr
  switch i8 %97, label %231 [
    i8 4, label %224
    i8 8, label %227
    i8 2, label %229
  ]

224:
  %225 = load i32, ptr %223, align 4
  %226 = zext i32 %225 to i64
  br label %237

227:
  %228 = load i64, ptr %223, align 8
  br label %237

229:
  %230 = load i16, ptr %223, align 2
  br label %234

231:
  %232 = load i8, ptr %223, align 1
  %233 = zext i8 %232 to i16
  br label %234

234:
  %235 = phi i16 [ %230, %229 ], [ %233, %231 ]
  %236 = zext i16 %235 to i64
  br label %237

237:
  %238 = phi i64 [ %236, %234 ], [ %226, %224 ], [ %228, %227 ]
  %239 = and i64 %220, %102
  %240 = icmp ne i64 %238, %239
  %241 = add nsw i64 %198, %125
  %242 = shl nsw i64 %241, 3
  %243 = add nsw i64 %242, %62
  %244 = inttoptr i64 %243 to ptr
  %245 = load i64, ptr %244, align 8
  %246 = icmp eq i64 %245, 0
  br i1 %246, label %247, label %254

247:
  %248 = add nsw i64 %242, %65
  %249 = inttoptr i64 %248 to ptr
  %250 = load i64, ptr %249, align 8
  %251 = icmp eq i64 %250, 0
  %252 = select i1 %251, i1 true, i1 %240
  %253 = select i1 %252, i64 0, i64 2097152
  br label %257

254:
  %255 = and i64 %245, 3145728
  %256 = select i1 %240, i64 1048576, i64 %255
  br label %257

257:
  %258 = phi i64 [ %256, %254 ], [ %253, %247 ]
  %259 = or i64 %127, %258
  store i64 %259, ptr %244, align 8
  %260 = icmp eq i64 %199, %84
  br i1 %260, label %128, label %197

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
  %19 = phi i8 [ 0, %23 ], [ 0, %146 ], [ 0, %8 ], [ 0, %190 ], [ 0, %136 ], [ 0, %78 ], [ 0, %70 ], [ 0, %81 ], [ 1, %215 ], [ 0, %101 ]
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
  %50 = getelementptr i8, ptr %49, i64 160
  %51 = getelementptr i8, ptr %49, i64 152
  %52 = inttoptr i64 %37 to ptr
  %53 = icmp ult i64 %22, 2
  %54 = select i1 %14, i1 true, i1 %53
  %55 = add nsw i64 %42, -1
  br label %224

56:
  br i1 %44, label %61, label %57

57:
  %58 = getelementptr i64, ptr %45, i64 %232
  %59 = load i64, ptr %58, align 8
  %60 = add nsw i64 %59, %33
  br label %66

61:
  %62 = getelementptr i32, ptr %45, i64 %232
  %63 = load i32, ptr %62, align 4
  %64 = add i32 %63, %46
  %65 = zext i32 %64 to i64
  br label %66

66:
  %67 = phi i64 [ %65, %61 ], [ %60, %57 ]
  %68 = icmp slt i64 %231, 0
  %69 = select i1 %68, i64 %67, i64 %231
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
  %82 = getelementptr i32, ptr %52, i64 %232
  %83 = load i32, ptr %82, align 4
  %84 = sub nsw i64 %67, %69
  %85 = trunc i64 %84 to i32
  %86 = icmp eq i32 %83, %85
  br i1 %86, label %87, label %18

87:
  %88 = icmp eq i64 %79, %230
  br i1 %88, label %101, label %89

89:
  %90 = inttoptr i64 %79 to ptr
  %91 = getelementptr i8, ptr %90, i64 24
  %92 = load i64, ptr %91, align 8
  %93 = getelementptr i8, ptr %90, i64 32
  %94 = load i64, ptr %93, align 8
  %95 = getelementptr i8, ptr %90, i64 48
  %96 = load i64, ptr %95, align 8
  %97 = getelementptr i8, ptr %90, i64 120
  %98 = load i64, ptr %97, align 8
  %99 = getelementptr i8, ptr %90, i64 136
  %100 = load i64, ptr %99, align 8
  br label %101

101:
  %102 = phi i64 [ %79, %89 ], [ %230, %87 ]
  %103 = phi i64 [ %92, %89 ], [ %229, %87 ]
  %104 = phi i64 [ %94, %89 ], [ %228, %87 ]
  %105 = phi i64 [ %96, %89 ], [ %227, %87 ]
  %106 = phi i64 [ %98, %89 ], [ %226, %87 ]
  %107 = phi i64 [ %100, %89 ], [ %225, %87 ]
  %108 = sub nsw i64 %67, %103
  %109 = select i1 %54, i64 %232, i64 32
  %110 = icmp sgt i64 %108, -1
  %111 = icmp slt i64 %108, %104
  %112 = select i1 %110, i1 %111, i1 false
  %113 = and i64 %108, %55
  %114 = icmp eq i64 %113, 0
  %115 = select i1 %112, i1 %114, i1 false
  br i1 %115, label %116, label %18

116:
  %117 = lshr i64 %108, 2
  %118 = add nuw nsw i64 %108, %42
  %119 = lshr i64 %118, 2
  %120 = sub nsw i64 %119, %117
  %121 = icmp slt i64 %120, 1
  br i1 %121, label %215, label %122

122:
  %123 = inttoptr i64 %105 to ptr
  %124 = inttoptr i64 %106 to ptr
  %125 = inttoptr i64 %102 to ptr
  %126 = getelementptr i8, ptr %125, i64 72
  %127 = getelementptr i8, ptr %125, i64 80
  %128 = getelementptr i8, ptr %125, i64 136
  %129 = getelementptr i8, ptr %125, i64 120
  %130 = getelementptr i8, ptr %125, i64 64
  %131 = getelementptr i8, ptr %125, i64 96
  %132 = getelementptr i8, ptr %125, i64 56
  %133 = getelementptr i8, ptr %125, i64 104
  %134 = getelementptr i8, ptr %125, i64 88
  %135 = icmp eq i64 %109, 32
  br label %237

136:
  %137 = icmp ne i64 %243, 9223371968135299073
  %138 = or i1 %9, %137
  br i1 %138, label %18, label %140

139:
  br i1 %9, label %213, label %140

140:
  %141 = load i64, ptr %126, align 8
  %142 = inttoptr i64 %141 to ptr
  %143 = getelementptr i32, ptr %142, i64 %239
  %144 = load i32, ptr %143, align 4
  %145 = icmp eq i32 %144, 0
  br i1 %145, label %166, label %146

146:
  %147 = sext i32 %144 to i64
  %148 = load i64, ptr %127, align 8
  %149 = inttoptr i64 %148 to ptr
  %150 = load i64, ptr %149, align 8
  %151 = inttoptr i64 %150 to ptr
  %152 = getelementptr i64, ptr %151, i64 %147
  %153 = load i64, ptr %152, align 8
  %154 = lshr i64 %153, 24
  %155 = and i64 %154, 4095
  %156 = load i64, ptr %128, align 8
  %157 = icmp eq i64 %155, %156
  %158 = zext i1 %157 to i64
  %159 = load i64, ptr %129, align 8
  %160 = inttoptr i64 %159 to ptr
  %161 = getelementptr i64, ptr %160, i64 %155
  %162 = getelementptr i64, ptr %161, i64 %158
  %163 = load i64, ptr %162, align 8
  %164 = ashr i64 %153, 36
  %165 = icmp slt i64 %163, %164
  br i1 %165, label %18, label %166

166:
  %167 = load i64, ptr %130, align 8
  %168 = inttoptr i64 %167 to ptr
  %169 = getelementptr i8, ptr %168, i64 %239
  %170 = load i8, ptr %169, align 1
  %171 = and i8 %170, 2
  %172 = icmp eq i8 %171, 0
  br i1 %172, label %213, label %173

173:
  %174 = load i64, ptr %129, align 8
  %175 = inttoptr i64 %174 to ptr
  %176 = load i64, ptr %128, align 8
  %177 = load i64, ptr %131, align 8
  %178 = inttoptr i64 %177 to ptr
  %179 = load i64, ptr %178, align 8
  %180 = tail call i64 @llvm.smax.i64(i64 %179, i64 0)
  br label %181

181:
  %182 = phi i64 [ 0, %173 ], [ %197, %190 ]
  %183 = icmp eq i64 %182, %180
  br i1 %183, label %213, label %196

184:
  %185 = and i64 %207, 63
  %186 = icmp ne i64 %185, %109
  %187 = or i1 %135, %186
  %188 = zext i1 %187 to i64
  %189 = add nsw i64 %176, %188
  br label %190

190:
  %191 = phi i64 [ %189, %184 ], [ %211, %196 ]
  %192 = getelementptr i64, ptr %175, i64 %191
  %193 = load i64, ptr %192, align 8
  %194 = ashr i64 %207, 36
  %195 = icmp slt i64 %193, %194
  br i1 %195, label %18, label %181

196:
  %197 = add nuw i64 %182, 1
  %198 = load i64, ptr %132, align 8
  %199 = inttoptr i64 %198 to ptr
  %200 = load i64, ptr %199, align 8
  %201 = shl nsw i64 %182, 3
  %202 = load i64, ptr %133, align 8
  %203 = mul nsw i64 %201, %202
  %204 = add nsw i64 %203, %200
  %205 = inttoptr i64 %204 to ptr
  %206 = getelementptr i64, ptr %205, i64 %239
  %207 = load i64, ptr %206, align 8
  %208 = load i64, ptr %134, align 8
  %209 = inttoptr i64 %208 to ptr
  %210 = getelementptr i64, ptr %209, i64 %182
  %211 = load i64, ptr %210, align 8
  %212 = icmp eq i64 %211, %176
  br i1 %212, label %184, label %190

213:
  %214 = icmp sgt i64 %238, 1
  br i1 %214, label %237, label %215

215:
  %216 = phi i64 [ %231, %224 ], [ %69, %116 ], [ %69, %213 ]
  %217 = phi i64 [ %230, %224 ], [ %102, %116 ], [ %102, %213 ]
  %218 = phi i64 [ %229, %224 ], [ %103, %116 ], [ %103, %213 ]
  %219 = phi i64 [ %228, %224 ], [ %104, %116 ], [ %104, %213 ]
  %220 = phi i64 [ %227, %224 ], [ %105, %116 ], [ %105, %213 ]
  %221 = phi i64 [ %226, %224 ], [ %106, %116 ], [ %106, %213 ]
  %222 = phi i64 [ %225, %224 ], [ %107, %116 ], [ %107, %213 ]
  %223 = icmp eq i64 %233, 32
  br i1 %223, label %18, label %224

224:
  %225 = phi i64 [ 0, %27 ], [ %222, %215 ]
  %226 = phi i64 [ 0, %27 ], [ %221, %215 ]
  %227 = phi i64 [ 0, %27 ], [ %220, %215 ]
  %228 = phi i64 [ 0, %27 ], [ %219, %215 ]
  %229 = phi i64 [ 0, %27 ], [ %218, %215 ]
  %230 = phi i64 [ 0, %27 ], [ %217, %215 ]
  %231 = phi i64 [ -1, %27 ], [ %216, %215 ]
  %232 = phi i64 [ 0, %27 ], [ %233, %215 ]
  %233 = add nuw nsw i64 %232, 1
  %234 = shl nuw i64 1, %232
  %235 = and i64 %234, %5
  %236 = icmp eq i64 %235, 0
  br i1 %236, label %215, label %56

237:
  %238 = phi i64 [ %120, %122 ], [ %240, %213 ]
  %239 = phi i64 [ %117, %122 ], [ %241, %213 ]
  %240 = add nsw i64 %238, -1
  %241 = add nuw nsw i64 %239, 1
  %242 = getelementptr i64, ptr %123, i64 %239
  %243 = load i64, ptr %242, align 8
  %244 = lshr i64 %243, 24
  %245 = and i64 %244, 4095
  %246 = and i64 %243, 63
  %247 = icmp eq i64 %246, %109
  br i1 %247, label %251, label %248

248:
  %249 = icmp eq i64 %246, 32
  %250 = and i1 %9, %249
  br label %251

251:
  %252 = phi i1 [ %250, %248 ], [ true, %237 ]
  %253 = icmp ne i64 %245, %107
  %254 = select i1 %253, i1 true, i1 %252
  %255 = xor i1 %254, true
  %256 = zext i1 %255 to i64
  %257 = getelementptr i64, ptr %124, i64 %245
  %258 = getelementptr i64, ptr %257, i64 %256
  %259 = load i64, ptr %258, align 8
  %260 = ashr i64 %243, 36
  %261 = icmp slt i64 %259, %260
  br i1 %261, label %136, label %139
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
  %64 = getelementptr i8, ptr %35, i64 160
  %65 = getelementptr i8, ptr %35, i64 152
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
  %122 = getelementptr i8, ptr %115, i64 128
  %123 = load i64, ptr %122, align 8
  %124 = getelementptr i8, ptr %115, i64 56
  %125 = load i64, ptr %124, align 8
  %126 = inttoptr i64 %125 to ptr
  %127 = load i64, ptr %126, align 8
  %128 = shl nsw i64 %123, 3
  %129 = getelementptr i8, ptr %115, i64 104
  %130 = load i64, ptr %129, align 8
  %131 = mul nsw i64 %128, %130
  %132 = add nsw i64 %131, %127
  %133 = getelementptr i8, ptr %115, i64 136
  %134 = load i64, ptr %133, align 8
  %135 = getelementptr i8, ptr %115, i64 120
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
  %52 = getelementptr i8, ptr %35, i64 112
  %53 = load i64, ptr %52, align 8
  %54 = inttoptr i64 %53 to ptr
  %55 = getelementptr i32, ptr %54, i64 %9
  %56 = load i32, ptr %55, align 4
  %57 = trunc nuw i64 %26 to i32
  %58 = or i32 %56, %57
  store i32 %58, ptr %55, align 4
  %59 = getelementptr i8, ptr %5, i64 8
  %60 = load i64, ptr %59, align 8
  %61 = add nsw i64 %60, %0
  %62 = getelementptr i8, ptr %5, i64 16
  %63 = load i64, ptr %62, align 8
  %64 = load i64, ptr %5, align 8
  %65 = and i64 %7, 2
  %66 = icmp eq i64 %65, 0
  %67 = inttoptr i64 %61 to ptr
  %68 = trunc i64 %63 to i32
  %69 = and i64 %7, 128
  %70 = icmp eq i64 %69, 0
  %71 = getelementptr i8, ptr %35, i64 160
  %72 = getelementptr i8, ptr %35, i64 152
  %73 = shl i64 %9, 6
  %74 = add nsw i64 %73, 128
  %75 = icmp eq i64 %43, 0
  %76 = and i64 %7, 32
  %77 = icmp eq i64 %76, 0
  %78 = lshr i64 %7, 24
  %79 = and i64 %78, 255
  %80 = tail call i64 @llvm.umax.i64(i64 %79, i64 4)
  %81 = shl nuw nsw i64 %80, 5
  %82 = add nsw i64 %64, %0
  %83 = trunc i64 %78 to i8
  %84 = trunc i64 %40 to i8
  %85 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %86 = icmp ult i64 %85, 2
  %87 = select i1 %31, i1 true, i1 %86
  br label %230

88:
  br i1 %66, label %93, label %89

89:
  %90 = getelementptr i64, ptr %67, i64 %237
  %91 = load i64, ptr %90, align 8
  %92 = add nsw i64 %91, %63
  br label %98

93:
  %94 = getelementptr i32, ptr %67, i64 %237
  %95 = load i32, ptr %94, align 4
  %96 = add i32 %95, %68
  %97 = zext i32 %96 to i64
  br label %98

98:
  %99 = phi i64 [ %97, %93 ], [ %92, %89 ]
  br i1 %70, label %108, label %100

100:
  %101 = ashr i64 %99, 24
  %102 = load i64, ptr %71, align 8
  %103 = icmp slt i64 %101, %102
  br i1 %103, label %104, label %108

104:
  %105 = load i64, ptr %72, align 8
  %106 = shl nsw i64 %101, 8
  %107 = add nsw i64 %105, %106
  br label %108

108:
  %109 = phi i64 [ %29, %98 ], [ %107, %104 ], [ 0, %100 ]
  %110 = icmp eq i64 %109, %236
  br i1 %110, label %132, label %111

111:
  %112 = inttoptr i64 %109 to ptr
  %113 = getelementptr i8, ptr %112, i64 24
  %114 = load i64, ptr %113, align 8
  %115 = getelementptr i8, ptr %112, i64 40
  %116 = load i64, ptr %115, align 8
  %117 = getelementptr i8, ptr %112, i64 64
  %118 = load i64, ptr %117, align 8
  %119 = getelementptr i8, ptr %112, i64 48
  %120 = load i64, ptr %119, align 8
  %121 = getelementptr i8, ptr %112, i64 136
  %122 = load i64, ptr %121, align 8
  %123 = getelementptr i8, ptr %112, i64 120
  %124 = load i64, ptr %123, align 8
  %125 = inttoptr i64 %124 to ptr
  %126 = getelementptr i64, ptr %125, i64 %122
  %127 = load i64, ptr %126, align 8
  %128 = shl i64 %127, 36
  %129 = shl i64 %122, 24
  %130 = or i64 %129, %74
  %131 = or i64 %130, %128
  br label %132

132:
  %133 = phi i64 [ %109, %111 ], [ %236, %108 ]
  %134 = phi i64 [ %114, %111 ], [ %235, %108 ]
  %135 = phi i64 [ %116, %111 ], [ %234, %108 ]
  %136 = phi i64 [ %118, %111 ], [ %233, %108 ]
  %137 = phi i64 [ %120, %111 ], [ %232, %108 ]
  %138 = phi i64 [ %131, %111 ], [ %231, %108 ]
  br i1 %75, label %139, label %141

139:
  %140 = sub nsw i64 %99, %134
  br label %180

141:
  %142 = mul nuw nsw i64 %237, %79
  %143 = add i64 %82, %142
  %144 = sub i64 %99, %134
  %145 = add i64 %144, %135
  br label %146

146:
  %147 = phi i64 [ 0, %141 ], [ %148, %178 ]
  %148 = add nuw nsw i64 %147, 1
  br i1 %77, label %149, label %166

149:
  %150 = mul nuw nsw i64 %81, %147
  %151 = add i64 %143, %150
  %152 = inttoptr i64 %151 to ptr
  switch i8 %83, label %160 [
    i8 4, label %153
    i8 8, label %156
    i8 2, label %158
  ]

153:
  %154 = load i32, ptr %152, align 4
  %155 = zext i32 %154 to i64
  br label %166

156:
  %157 = load i64, ptr %152, align 8
  br label %166

158:
  %159 = load i16, ptr %152, align 2
  br label %163

160:
  %161 = load i8, ptr %152, align 1
  %162 = zext i8 %161 to i16
  br label %163

163:
  %164 = phi i16 [ %159, %158 ], [ %162, %160 ]
  %165 = zext i16 %164 to i64
  br label %166

166:
  %167 = phi i64 [ %64, %146 ], [ %165, %163 ], [ %155, %153 ], [ %157, %156 ]
  %168 = mul nuw nsw i64 %147, %41
  %169 = add nsw i64 %145, %168
  %170 = inttoptr i64 %169 to ptr
  switch i8 %84, label %176 [
    i8 4, label %171
    i8 8, label %173
    i8 2, label %174
  ]

171:
  %172 = trunc i64 %167 to i32
  store i32 %172, ptr %170, align 4
  br label %178

173:
  store i64 %167, ptr %170, align 8
  br label %178

174:
  %175 = trunc i64 %167 to i16
  store i16 %175, ptr %170, align 2
  br label %178

176:
  %177 = trunc i64 %167 to i8
  store i8 %177, ptr %170, align 1
  br label %178

178:
  %179 = icmp eq i64 %148, %43
  br i1 %179, label %180, label %146

180:
  %181 = phi i64 [ %140, %139 ], [ %144, %178 ]
  %182 = ashr i64 %181, 2
  %183 = add nsw i64 %181, %44
  %184 = ashr i64 %183, 2
  %185 = sub nsw i64 %184, %182
  %186 = icmp slt i64 %185, 1
  br i1 %186, label %217, label %187

187:
  %188 = inttoptr i64 %136 to ptr
  %189 = inttoptr i64 %133 to ptr
  %190 = getelementptr i8, ptr %189, i64 96
  %191 = getelementptr i8, ptr %189, i64 56
  %192 = getelementptr i8, ptr %189, i64 104
  %193 = select i1 %87, i64 %237, i64 32
  %194 = inttoptr i64 %137 to ptr
  %195 = or i64 %138, %193
  br label %242

196:
  %197 = load i64, ptr %190, align 8
  %198 = inttoptr i64 %197 to ptr
  %199 = load i64, ptr %198, align 8
  %200 = icmp slt i64 %199, 1
  br i1 %200, label %214, label %201

201:
  %202 = phi i64 [ %203, %201 ], [ 0, %196 ]
  %203 = add nuw nsw i64 %202, 1
  %204 = load i64, ptr %191, align 8
  %205 = inttoptr i64 %204 to ptr
  %206 = load i64, ptr %205, align 8
  %207 = shl nsw i64 %202, 3
  %208 = load i64, ptr %192, align 8
  %209 = mul nsw i64 %207, %208
  %210 = add nsw i64 %209, %206
  %211 = inttoptr i64 %210 to ptr
  %212 = getelementptr i64, ptr %211, i64 %244
  store i64 0, ptr %212, align 8
  %213 = icmp eq i64 %199, %203
  br i1 %213, label %214, label %201

214:
  %215 = getelementptr i64, ptr %194, i64 %244
  store i64 %195, ptr %215, align 8
  store i8 1, ptr %247, align 1
  %216 = icmp ugt i64 %243, 1
  br i1 %216, label %242, label %217

217:
  %218 = phi i64 [ %236, %230 ], [ %133, %180 ], [ %133, %214 ]
  %219 = phi i64 [ %235, %230 ], [ %134, %180 ], [ %134, %214 ]
  %220 = phi i64 [ %234, %230 ], [ %135, %180 ], [ %135, %214 ]
  %221 = phi i64 [ %233, %230 ], [ %136, %180 ], [ %136, %214 ]
  %222 = phi i64 [ %232, %230 ], [ %137, %180 ], [ %137, %214 ]
  %223 = phi i64 [ %231, %230 ], [ %138, %180 ], [ %138, %214 ]
  %224 = icmp eq i64 %238, 32
  br i1 %224, label %225, label %230

225:
  %226 = inttoptr i64 %39 to ptr
  %227 = load i64, ptr %226, align 8
  %228 = add nsw i64 %227, 1
  store i64 %228, ptr %226, align 8
  %229 = add nsw i64 %2, 56
  br label %251

230:
  %231 = phi i64 [ 0, %51 ], [ %223, %217 ]
  %232 = phi i64 [ 0, %51 ], [ %222, %217 ]
  %233 = phi i64 [ 0, %51 ], [ %221, %217 ]
  %234 = phi i64 [ 0, %51 ], [ %220, %217 ]
  %235 = phi i64 [ 0, %51 ], [ %219, %217 ]
  %236 = phi i64 [ 0, %51 ], [ %218, %217 ]
  %237 = phi i64 [ 0, %51 ], [ %238, %217 ]
  %238 = add nuw nsw i64 %237, 1
  %239 = shl nuw i64 1, %237
  %240 = and i64 %239, %34
  %241 = icmp eq i64 %240, 0
  br i1 %241, label %217, label %88

242:
  %243 = phi i64 [ %185, %187 ], [ %245, %214 ]
  %244 = phi i64 [ %182, %187 ], [ %246, %214 ]
  %245 = add nsw i64 %243, -1
  %246 = add nsw i64 %244, 1
  %247 = getelementptr i8, ptr %188, i64 %244
  %248 = load i8, ptr %247, align 1
  %249 = and i8 %248, 2
  %250 = icmp eq i8 %249, 0
  br i1 %250, label %214, label %196

251:
  %252 = phi i64 [ %47, %46 ], [ %229, %225 ], [ 0, %48 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %252
}

declare i64 @llvm.ctpop.i64(i64)

declare i64 @llvm.umax.i64(i64, i64)

declare void @llvm.lifetime.start.p0(ptr)

declare void @llvm.lifetime.end.p0(ptr)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.vector.reduce.add.v4i64(<4 x i64>)


