; Made from load_store.py by `python -m lab.checks`.

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
  br i1 %45, label %237, label %46

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
  %58 = getelementptr i8, ptr %35, i64 120
  %59 = load i64, ptr %58, align 8
  %60 = inttoptr i64 %59 to ptr
  %61 = getelementptr i8, ptr %35, i64 136
  %62 = load i64, ptr %61, align 8
  %63 = getelementptr i32, ptr %60, i64 %62
  %64 = load i32, ptr %63, align 4
  %65 = zext i32 %64 to i64
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
  %76 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %77 = icmp ult i64 %76, 2
  %78 = select i1 %31, i1 true, i1 %77
  %79 = or i64 %69, %71
  %80 = or i64 %79, %66
  %81 = icmp eq i64 %55, 0
  %82 = ashr i64 %7, 32
  %83 = lshr i64 %43, %82
  %84 = select i1 %81, i64 0, i64 %83
  %85 = icmp eq i64 %84, 0
  %86 = add nsw i64 %52, %0
  %87 = lshr i64 %7, 24
  %88 = and i64 %87, 255
  %89 = icmp eq i64 %40, 4
  %90 = icmp eq i64 %88, 4
  %91 = and i1 %89, %90
  %92 = and i1 %31, %91
  %93 = icmp eq i64 %42, 0
  %94 = trunc i64 %39 to i8
  %95 = and i64 %7, 1
  %96 = icmp ne i64 %95, 0
  %97 = icmp ult i64 %40, 8
  %98 = and i1 %96, %97
  %99 = shl nuw nsw i64 %40, 3
  %100 = add nsw i64 %99, -1
  %101 = shl nuw nsw i64 1, %100
  %102 = tail call i64 @llvm.umax.i64(i64 %88, i64 4)
  %103 = shl nuw nsw i64 %102, 5
  %104 = trunc i64 %87 to i8
  br label %223

105:
  br i1 %73, label %110, label %106

106:
  %107 = getelementptr i64, ptr %74, i64 %224
  %108 = load i64, ptr %107, align 8
  %109 = add nsw i64 %108, %51
  br label %115

110:
  %111 = getelementptr i32, ptr %74, i64 %224
  %112 = load i32, ptr %111, align 4
  %113 = add i32 %112, %75
  %114 = zext i32 %113 to i64
  br label %115

115:
  %116 = phi i64 [ %114, %110 ], [ %109, %106 ]
  %117 = select i1 %78, i64 %224, i64 32
  %118 = or i64 %80, %117
  br i1 %85, label %121, label %119

119:
  %120 = ashr i64 %116, %82
  br label %229

121:
  br i1 %92, label %126, label %122

122:
  br i1 %93, label %199, label %123

123:
  %124 = mul nuw nsw i64 %224, %88
  %125 = add i64 %124, %86
  br label %172

126:
  br i1 %93, label %199, label %127

127:
  %128 = inttoptr i64 %116 to ptr
  br label %162

129:
  %130 = xor i64 %192, %101
  %131 = sub nsw i64 %130, %101
  br label %132

132:
  %133 = phi i64 [ %131, %129 ], [ %192, %191 ], [ %182, %181 ]
  %134 = mul nuw nsw i64 %103, %173
  br i1 %31, label %150, label %135

135:
  %136 = add nsw i64 %134, %86
  %137 = trunc i64 %133 to i16
  %138 = trunc i64 %133 to i32
  %139 = trunc i64 %133 to i8
  br label %193

140:
  %141 = mul nuw nsw i64 %194, %88
  %142 = add nsw i64 %136, %141
  %143 = inttoptr i64 %142 to ptr
  switch i8 %104, label %147 [
    i8 4, label %144
    i8 8, label %145
    i8 2, label %146
  ]

144:
  store i32 %138, ptr %143, align 4
  br label %148

145:
  store i64 %133, ptr %143, align 8
  br label %148

146:
  store i16 %137, ptr %143, align 2
  br label %148

147:
  store i8 %139, ptr %143, align 1
  br label %148

148:
  %149 = icmp eq i64 %195, 32
  br i1 %149, label %160, label %193

150:
  %151 = add i64 %125, %134
  %152 = inttoptr i64 %151 to ptr
  switch i8 %104, label %158 [
    i8 4, label %153
    i8 8, label %155
    i8 2, label %156
  ]

153:
  %154 = trunc i64 %133 to i32
  store i32 %154, ptr %152, align 4
  br label %160

155:
  store i64 %133, ptr %152, align 8
  br label %160

156:
  %157 = trunc i64 %133 to i16
  store i16 %157, ptr %152, align 2
  br label %160

158:
  %159 = trunc i64 %133 to i8
  store i8 %159, ptr %152, align 1
  br label %160

160:
  %161 = icmp eq i64 %174, %42
  br i1 %161, label %199, label %172

162:
  %163 = phi i64 [ 0, %127 ], [ %164, %162 ]
  %164 = add nuw nsw i64 %163, 1
  %165 = getelementptr i32, ptr %128, i64 %163
  %166 = load i32, ptr %165, align 4
  %167 = shl nsw i64 %163, 7
  %168 = add nsw i64 %167, %86
  %169 = inttoptr i64 %168 to ptr
  %170 = getelementptr i32, ptr %169, i64 %224
  store i32 %166, ptr %170, align 4
  %171 = icmp eq i64 %164, %42
  br i1 %171, label %199, label %162

172:
  %173 = phi i64 [ 0, %123 ], [ %174, %160 ]
  %174 = add nuw nsw i64 %173, 1
  %175 = mul nuw nsw i64 %173, %40
  %176 = add nsw i64 %175, %116
  %177 = inttoptr i64 %176 to ptr
  switch i8 %94, label %185 [
    i8 4, label %178
    i8 8, label %181
    i8 2, label %183
  ]

178:
  %179 = load i32, ptr %177, align 4
  %180 = zext i32 %179 to i64
  br label %191

181:
  %182 = load i64, ptr %177, align 8
  br label %132

183:
  %184 = load i16, ptr %177, align 2
  br label %188

185:
  %186 = load i8, ptr %177, align 1
  %187 = zext i8 %186 to i16
  br label %188

188:
  %189 = phi i16 [ %184, %183 ], [ %187, %185 ]
  %190 = zext i16 %189 to i64
  br label %191

191:
  %192 = phi i64 [ %190, %188 ], [ %180, %178 ]
  br i1 %98, label %129, label %132

193:
  %194 = phi i64 [ 0, %135 ], [ %195, %148 ]
  %195 = add nuw nsw i64 %194, 1
  %196 = shl nuw i64 1, %194
  %197 = and i64 %196, %26
  %198 = icmp eq i64 %197, 0
  br i1 %198, label %148, label %140

199:
  %200 = icmp eq i64 %225, 32
  br i1 %200, label %201, label %223

201:
  %202 = getelementptr i8, ptr %35, i64 8
  %203 = load i64, ptr %202, align 8
  %204 = inttoptr i64 %203 to ptr
  %205 = load i64, ptr %204, align 8
  %206 = insertelement <4 x i64> poison, i64 %34, i64 0
  %207 = shufflevector <4 x i64> %206, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %208

208:
  %209 = phi i64 [ 0, %201 ], [ %215, %208 ]
  %210 = phi <4 x i64> [ zeroinitializer, %201 ], [ %214, %208 ]
  %211 = phi <4 x i64> [ <i64 0, i64 1, i64 2, i64 3>, %201 ], [ %216, %208 ]
  %212 = lshr <4 x i64> %207, %211
  %213 = and <4 x i64> %212, splat (i64 1)
  %214 = add <4 x i64> %213, %210
  %215 = add nuw i64 %209, 4
  %216 = add nuw nsw <4 x i64> %211, splat (i64 4)
  %217 = icmp eq i64 %215, 32
  br i1 %217, label %218, label %208

218:
  %219 = tail call i64 @llvm.vector.reduce.add.v4i64(<4 x i64> %214)
  %220 = mul nuw nsw i64 %219, %43
  %221 = add nsw i64 %220, %205
  store i64 %221, ptr %204, align 8
  %222 = add nsw i64 %2, 56
  br label %237

223:
  %224 = phi i64 [ 0, %46 ], [ %225, %199 ]
  %225 = add nuw nsw i64 %224, 1
  %226 = shl nuw i64 1, %224
  %227 = and i64 %226, %34
  %228 = icmp eq i64 %227, 0
  br i1 %228, label %199, label %105

229:
  %230 = phi i64 [ 0, %119 ], [ %231, %229 ]
  %231 = add nuw nsw i64 %230, 1
  %232 = add nsw i64 %230, %120
  %233 = shl nsw i64 %232, 3
  %234 = add nsw i64 %233, %57
  %235 = inttoptr i64 %234 to ptr
  store i64 %118, ptr %235, align 8
  %236 = icmp eq i64 %231, %84
  br i1 %236, label %121, label %229

237:
  %238 = phi i64 [ %222, %218 ], [ 0, %24 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %238
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
  br i1 %45, label %262, label %46

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
  %58 = getelementptr i8, ptr %35, i64 120
  %59 = load i64, ptr %58, align 8
  %60 = inttoptr i64 %59 to ptr
  %61 = getelementptr i8, ptr %35, i64 136
  %62 = load i64, ptr %61, align 8
  %63 = getelementptr i32, ptr %60, i64 %62
  %64 = load i32, ptr %63, align 4
  %65 = zext i32 %64 to i64
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
  %76 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %77 = icmp ult i64 %76, 2
  %78 = select i1 %31, i1 true, i1 %77
  %79 = icmp eq i64 %55, 0
  %80 = ashr i64 %7, 32
  %81 = lshr i64 %43, %80
  %82 = select i1 %79, i64 0, i64 %81
  %83 = icmp eq i64 %82, 0
  %84 = lshr i64 %40, 1
  %85 = lshr i64 %40, 3
  %86 = sub nsw i64 %84, %85
  %87 = and i64 %7, 32
  %88 = icmp eq i64 %87, 0
  %89 = lshr i64 %7, 24
  %90 = and i64 %89, 255
  %91 = tail call i64 @llvm.umax.i64(i64 %90, i64 4)
  %92 = shl nuw nsw i64 %91, 5
  %93 = add nsw i64 %52, %0
  %94 = trunc i64 %89 to i8
  %95 = trunc i64 %39 to i8
  %96 = icmp eq i64 %40, 8
  %97 = shl nuw nsw i64 %40, 3
  %98 = shl nsw i64 -1, %97
  %99 = xor i64 %98, -1
  %100 = select i1 %96, i64 -1, i64 %99
  %101 = or i64 %69, %71
  %102 = or i64 %66, %101
  %103 = icmp eq i64 %42, 0
  br label %192

104:
  br i1 %73, label %109, label %105

105:
  %106 = getelementptr i64, ptr %74, i64 %193
  %107 = load i64, ptr %106, align 8
  %108 = add nsw i64 %107, %51
  br label %114

109:
  %110 = getelementptr i32, ptr %74, i64 %193
  %111 = load i32, ptr %110, align 4
  %112 = add i32 %111, %75
  %113 = zext i32 %112 to i64
  br label %114

114:
  %115 = phi i64 [ %113, %109 ], [ %108, %105 ]
  br i1 %83, label %122, label %116

116:
  %117 = select i1 %78, i64 %193, i64 32
  %118 = ashr i64 %115, %80
  %119 = mul nuw nsw i64 %193, %90
  %120 = add i64 %93, %119
  %121 = or i64 %117, %102
  br label %198

122:
  br i1 %103, label %160, label %123

123:
  %124 = mul nuw nsw i64 %193, %90
  %125 = add i64 %93, %124
  br label %126

126:
  %127 = phi i64 [ 0, %123 ], [ %128, %158 ]
  %128 = add nuw nsw i64 %127, 1
  br i1 %88, label %129, label %146

129:
  %130 = mul nuw nsw i64 %92, %127
  %131 = add i64 %125, %130
  %132 = inttoptr i64 %131 to ptr
  switch i8 %94, label %140 [
    i8 4, label %133
    i8 8, label %136
    i8 2, label %138
  ]

133:
  %134 = load i32, ptr %132, align 4
  %135 = zext i32 %134 to i64
  br label %146

136:
  %137 = load i64, ptr %132, align 8
  br label %146

138:
  %139 = load i16, ptr %132, align 2
  br label %143

140:
  %141 = load i8, ptr %132, align 1
  %142 = zext i8 %141 to i16
  br label %143

143:
  %144 = phi i16 [ %139, %138 ], [ %142, %140 ]
  %145 = zext i16 %144 to i64
  br label %146

146:
  %147 = phi i64 [ %52, %126 ], [ %145, %143 ], [ %135, %133 ], [ %137, %136 ]
  %148 = mul nuw nsw i64 %127, %40
  %149 = add nsw i64 %148, %115
  %150 = inttoptr i64 %149 to ptr
  switch i8 %95, label %156 [
    i8 4, label %151
    i8 8, label %153
    i8 2, label %154
  ]

151:
  %152 = trunc i64 %147 to i32
  store i32 %152, ptr %150, align 4
  br label %158

153:
  store i64 %147, ptr %150, align 8
  br label %158

154:
  %155 = trunc i64 %147 to i16
  store i16 %155, ptr %150, align 2
  br label %158

156:
  %157 = trunc i64 %147 to i8
  store i8 %157, ptr %150, align 1
  br label %158

158:
  %159 = icmp eq i64 %128, %42
  br i1 %159, label %160, label %126

160:
  %161 = icmp eq i64 %194, 32
  br i1 %161, label %162, label %192

162:
  %163 = getelementptr i8, ptr %35, i64 112
  %164 = load i64, ptr %163, align 8
  %165 = inttoptr i64 %164 to ptr
  %166 = getelementptr i32, ptr %165, i64 %9
  %167 = load i32, ptr %166, align 4
  %168 = trunc nuw i64 %26 to i32
  %169 = or i32 %167, %168
  store i32 %169, ptr %166, align 4
  %170 = getelementptr i8, ptr %35, i64 8
  %171 = load i64, ptr %170, align 8
  %172 = inttoptr i64 %171 to ptr
  %173 = getelementptr i8, ptr %172, i64 8
  %174 = load i64, ptr %173, align 8
  %175 = insertelement <4 x i64> poison, i64 %34, i64 0
  %176 = shufflevector <4 x i64> %175, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %177

177:
  %178 = phi i64 [ 0, %162 ], [ %184, %177 ]
  %179 = phi <4 x i64> [ zeroinitializer, %162 ], [ %183, %177 ]
  %180 = phi <4 x i64> [ <i64 0, i64 1, i64 2, i64 3>, %162 ], [ %185, %177 ]
  %181 = lshr <4 x i64> %176, %180
  %182 = and <4 x i64> %181, splat (i64 1)
  %183 = add <4 x i64> %182, %179
  %184 = add nuw i64 %178, 4
  %185 = add nuw nsw <4 x i64> %180, splat (i64 4)
  %186 = icmp eq i64 %184, 32
  br i1 %186, label %187, label %177

187:
  %188 = tail call i64 @llvm.vector.reduce.add.v4i64(<4 x i64> %183)
  %189 = mul nuw nsw i64 %188, %43
  %190 = add nsw i64 %189, %174
  store i64 %190, ptr %173, align 8
  %191 = add nsw i64 %2, 56
  br label %262

192:
  %193 = phi i64 [ 0, %46 ], [ %194, %160 ]
  %194 = add nuw nsw i64 %193, 1
  %195 = shl nuw i64 1, %193
  %196 = and i64 %195, %34
  %197 = icmp eq i64 %196, 0
  br i1 %197, label %160, label %104

198:
  %199 = phi i64 [ 0, %116 ], [ %200, %258 ]
  %200 = add nuw nsw i64 %199, 1
  %201 = add nsw i64 %199, %118
  %202 = shl nsw i64 %201, 3
  %203 = add nsw i64 %202, %57
  %204 = inttoptr i64 %203 to ptr
  %205 = shl i64 %199, %80
  %206 = ashr i64 %205, %86
  br i1 %88, label %207, label %224

207:
  %208 = mul nsw i64 %92, %206
  %209 = add i64 %120, %208
  %210 = inttoptr i64 %209 to ptr
  switch i8 %94, label %218 [
    i8 4, label %211
    i8 8, label %214
    i8 2, label %216
  ]

211:
  %212 = load i32, ptr %210, align 4
  %213 = zext i32 %212 to i64
  br label %224

214:
  %215 = load i64, ptr %210, align 8
  br label %224

216:
  %217 = load i16, ptr %210, align 2
  br label %221

218:
  %219 = load i8, ptr %210, align 1
  %220 = zext i8 %219 to i16
  br label %221

221:
  %222 = phi i16 [ %217, %216 ], [ %220, %218 ]
  %223 = zext i16 %222 to i64
  br label %224

224:
  %225 = phi i64 [ %52, %198 ], [ %223, %221 ], [ %213, %211 ], [ %215, %214 ]
  %226 = mul nsw i64 %206, %40
  %227 = add nsw i64 %226, %115
  %228 = inttoptr i64 %227 to ptr
  switch i8 %95, label %236 [
    i8 4, label %229
    i8 8, label %232
    i8 2, label %234
  ]

229:
  %230 = load i32, ptr %228, align 4
  %231 = zext i32 %230 to i64
  br label %242

232:
  %233 = load i64, ptr %228, align 8
  br label %242

234:
  %235 = load i16, ptr %228, align 2
  br label %239

236:
  %237 = load i8, ptr %228, align 1
  %238 = zext i8 %237 to i16
  br label %239

239:
  %240 = phi i16 [ %235, %234 ], [ %238, %236 ]
  %241 = zext i16 %240 to i64
  br label %242

242:
  %243 = phi i64 [ %241, %239 ], [ %231, %229 ], [ %233, %232 ]
  %244 = and i64 %225, %100
  %245 = icmp ne i64 %243, %244
  %246 = add nsw i64 %202, %55
  %247 = inttoptr i64 %246 to ptr
  %248 = load i64, ptr %247, align 8
  %249 = icmp eq i64 %248, 0
  br i1 %249, label %250, label %255

250:
  %251 = load i64, ptr %204, align 8
  %252 = icmp eq i64 %251, 0
  %253 = select i1 %252, i1 true, i1 %245
  %254 = select i1 %253, i64 0, i64 2097152
  br label %258

255:
  %256 = and i64 %248, 3145728
  %257 = select i1 %245, i64 1048576, i64 %256
  br label %258

258:
  %259 = phi i64 [ %257, %255 ], [ %254, %250 ]
  %260 = or i64 %121, %259
  store i64 %260, ptr %247, align 8
  %261 = icmp eq i64 %200, %82
  br i1 %261, label %122, label %198

262:
  %263 = phi i64 [ %191, %187 ], [ 0, %24 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %263
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
  %19 = phi i8 [ 0, %23 ], [ 0, %157 ], [ 0, %8 ], [ 0, %190 ], [ 0, %147 ], [ 0, %86 ], [ 0, %79 ], [ 0, %89 ], [ 0, %109 ], [ 1, %218 ], [ 0, %120 ]
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
  %43 = inttoptr i64 %36 to ptr
  %44 = getelementptr i8, ptr %43, i64 160
  %45 = load i64, ptr %44, align 8
  %46 = and i64 %3, 128
  %47 = icmp ne i64 %46, 0
  %48 = tail call i64 @llvm.ctpop.i64(i64 %45)
  %49 = icmp ult i64 %48, 2
  %50 = select i1 %47, i1 %49, i1 false
  %51 = shl i64 %45, 24
  %52 = add i64 %51, 4294967295
  %53 = and i64 %52, 4294967295
  %54 = select i1 %50, i64 %53, i64 4294967295
  %55 = and i64 %3, 2
  %56 = icmp eq i64 %55, 0
  %57 = inttoptr i64 %31 to ptr
  %58 = trunc i64 %33 to i32
  %59 = icmp eq i64 %46, 0
  %60 = getelementptr i8, ptr %43, i64 152
  %61 = inttoptr i64 %37 to ptr
  %62 = icmp ult i64 %22, 2
  %63 = select i1 %14, i1 true, i1 %62
  %64 = add nsw i64 %42, -1
  br label %226

65:
  br i1 %56, label %70, label %66

66:
  %67 = getelementptr i64, ptr %57, i64 %233
  %68 = load i64, ptr %67, align 8
  %69 = add nsw i64 %68, %33
  br label %75

70:
  %71 = getelementptr i32, ptr %57, i64 %233
  %72 = load i32, ptr %71, align 4
  %73 = add i32 %72, %58
  %74 = zext i32 %73 to i64
  br label %75

75:
  %76 = phi i64 [ %74, %70 ], [ %69, %66 ]
  %77 = icmp slt i64 %232, 0
  %78 = select i1 %77, i64 %76, i64 %232
  br i1 %59, label %86, label %79

79:
  %80 = ashr i64 %76, 24
  %81 = icmp slt i64 %80, %45
  br i1 %81, label %82, label %18

82:
  %83 = load i64, ptr %60, align 8
  %84 = shl nsw i64 %80, 8
  %85 = add nsw i64 %83, %84
  br label %86

86:
  %87 = phi i64 [ %36, %75 ], [ %85, %82 ]
  %88 = icmp eq i64 %87, 0
  br i1 %88, label %18, label %89

89:
  %90 = getelementptr i32, ptr %61, i64 %233
  %91 = load i32, ptr %90, align 4
  %92 = zext i32 %91 to i64
  %93 = sub i64 %78, %76
  %94 = add i64 %93, %92
  %95 = and i64 %94, %54
  %96 = icmp eq i64 %95, 0
  br i1 %96, label %97, label %18

97:
  %98 = icmp eq i64 %87, %231
  br i1 %98, label %109, label %99

99:
  %100 = inttoptr i64 %87 to ptr
  %101 = getelementptr i8, ptr %100, i64 24
  %102 = load i64, ptr %101, align 8
  %103 = getelementptr i8, ptr %100, i64 32
  %104 = load i64, ptr %103, align 8
  %105 = getelementptr i8, ptr %100, i64 48
  %106 = load i64, ptr %105, align 8
  %107 = getelementptr i8, ptr %100, i64 104
  %108 = load i64, ptr %107, align 8
  br label %109

109:
  %110 = phi i64 [ %87, %99 ], [ %231, %97 ]
  %111 = phi i64 [ %102, %99 ], [ %230, %97 ]
  %112 = phi i64 [ %104, %99 ], [ %229, %97 ]
  %113 = phi i64 [ %106, %99 ], [ %228, %97 ]
  %114 = phi i64 [ %108, %99 ], [ %227, %97 ]
  %115 = sub nsw i64 %76, %111
  %116 = select i1 %63, i64 %233, i64 32
  %117 = icmp sgt i64 %115, -1
  %118 = icmp slt i64 %115, %112
  %119 = select i1 %117, i1 %118, i1 false
  br i1 %119, label %120, label %18

120:
  %121 = and i64 %115, %64
  %122 = icmp ne i64 %121, 0
  %123 = lshr i64 %42, %114
  %124 = icmp eq i64 %123, 0
  %125 = select i1 %122, i1 true, i1 %124
  br i1 %125, label %18, label %126

126:
  %127 = lshr i64 %115, %114
  %128 = add nuw nsw i64 %115, %42
  %129 = lshr i64 %128, %114
  %130 = sub nsw i64 %129, %127
  %131 = icmp slt i64 %130, 1
  br i1 %131, label %218, label %132

132:
  %133 = inttoptr i64 %113 to ptr
  %134 = inttoptr i64 %110 to ptr
  %135 = getelementptr i8, ptr %134, i64 136
  %136 = load i64, ptr %135, align 8
  %137 = getelementptr i8, ptr %134, i64 120
  %138 = load i64, ptr %137, align 8
  %139 = inttoptr i64 %138 to ptr
  %140 = getelementptr i8, ptr %134, i64 72
  %141 = getelementptr i8, ptr %134, i64 80
  %142 = getelementptr i8, ptr %134, i64 64
  %143 = getelementptr i8, ptr %134, i64 88
  %144 = getelementptr i8, ptr %134, i64 56
  %145 = getelementptr i8, ptr %134, i64 96
  %146 = icmp eq i64 %116, 32
  br label %238

147:
  %148 = icmp ne i64 %244, 9223371968135299073
  %149 = or i1 %9, %148
  br i1 %149, label %18, label %151

150:
  br i1 %9, label %216, label %151

151:
  %152 = load i64, ptr %140, align 8
  %153 = inttoptr i64 %152 to ptr
  %154 = getelementptr i32, ptr %153, i64 %240
  %155 = load i32, ptr %154, align 4
  %156 = icmp eq i32 %155, 0
  br i1 %156, label %175, label %157

157:
  %158 = sext i32 %155 to i64
  %159 = load i64, ptr %141, align 8
  %160 = inttoptr i64 %159 to ptr
  %161 = load i64, ptr %160, align 8
  %162 = inttoptr i64 %161 to ptr
  %163 = getelementptr i64, ptr %162, i64 %158
  %164 = load i64, ptr %163, align 8
  %165 = lshr i64 %164, 24
  %166 = and i64 %165, 4095
  %167 = icmp eq i64 %166, %136
  %168 = zext i1 %167 to i64
  %169 = getelementptr i32, ptr %139, i64 %166
  %170 = getelementptr i32, ptr %169, i64 %168
  %171 = load i32, ptr %170, align 4
  %172 = ashr i64 %164, 36
  %173 = sext i32 %171 to i64
  %174 = icmp sgt i64 %172, %173
  br i1 %174, label %18, label %175

175:
  %176 = load i64, ptr %142, align 8
  %177 = inttoptr i64 %176 to ptr
  %178 = getelementptr i8, ptr %177, i64 %240
  %179 = load i8, ptr %178, align 1
  %180 = and i8 %179, 2
  %181 = icmp eq i8 %180, 0
  br i1 %181, label %216, label %182

182:
  %183 = load i64, ptr %143, align 8
  %184 = inttoptr i64 %183 to ptr
  %185 = load i64, ptr %184, align 8
  %186 = tail call i64 @llvm.smax.i64(i64 %185, i64 0)
  br label %187

187:
  %188 = phi i64 [ 0, %182 ], [ %191, %190 ]
  %189 = icmp eq i64 %188, %186
  br i1 %189, label %216, label %190

190:
  %191 = add nuw i64 %188, 1
  %192 = load i64, ptr %144, align 8
  %193 = inttoptr i64 %192 to ptr
  %194 = load i64, ptr %193, align 8
  %195 = shl nsw i64 %188, 3
  %196 = load i64, ptr %145, align 8
  %197 = mul nsw i64 %195, %196
  %198 = add nsw i64 %197, %194
  %199 = inttoptr i64 %198 to ptr
  %200 = getelementptr i64, ptr %199, i64 %240
  %201 = load i64, ptr %200, align 8
  %202 = and i64 %201, 63
  %203 = icmp ne i64 %202, %116
  %204 = or i1 %146, %203
  %205 = lshr i64 %201, 24
  %206 = and i64 %205, 4095
  %207 = icmp eq i64 %206, %136
  %208 = select i1 %207, i1 %204, i1 false
  %209 = zext i1 %208 to i64
  %210 = getelementptr i32, ptr %139, i64 %206
  %211 = getelementptr i32, ptr %210, i64 %209
  %212 = load i32, ptr %211, align 4
  %213 = ashr i64 %201, 36
  %214 = sext i32 %212 to i64
  %215 = icmp sgt i64 %213, %214
  br i1 %215, label %18, label %187

216:
  %217 = icmp sgt i64 %239, 1
  br i1 %217, label %238, label %218

218:
  %219 = phi i64 [ %232, %226 ], [ %78, %126 ], [ %78, %216 ]
  %220 = phi i64 [ %231, %226 ], [ %110, %126 ], [ %110, %216 ]
  %221 = phi i64 [ %230, %226 ], [ %111, %126 ], [ %111, %216 ]
  %222 = phi i64 [ %229, %226 ], [ %112, %126 ], [ %112, %216 ]
  %223 = phi i64 [ %228, %226 ], [ %113, %126 ], [ %113, %216 ]
  %224 = phi i64 [ %227, %226 ], [ %114, %126 ], [ %114, %216 ]
  %225 = icmp eq i64 %234, 32
  br i1 %225, label %18, label %226

226:
  %227 = phi i64 [ 0, %27 ], [ %224, %218 ]
  %228 = phi i64 [ 0, %27 ], [ %223, %218 ]
  %229 = phi i64 [ 0, %27 ], [ %222, %218 ]
  %230 = phi i64 [ 0, %27 ], [ %221, %218 ]
  %231 = phi i64 [ 0, %27 ], [ %220, %218 ]
  %232 = phi i64 [ -1, %27 ], [ %219, %218 ]
  %233 = phi i64 [ 0, %27 ], [ %234, %218 ]
  %234 = add nuw nsw i64 %233, 1
  %235 = shl nuw i64 1, %233
  %236 = and i64 %235, %5
  %237 = icmp eq i64 %236, 0
  br i1 %237, label %218, label %65

238:
  %239 = phi i64 [ %130, %132 ], [ %241, %216 ]
  %240 = phi i64 [ %127, %132 ], [ %242, %216 ]
  %241 = add nsw i64 %239, -1
  %242 = add i64 %240, 1
  %243 = getelementptr i64, ptr %133, i64 %240
  %244 = load i64, ptr %243, align 8
  %245 = and i64 %244, 63
  %246 = icmp ne i64 %245, %116
  %247 = select i1 %246, i1 %9, i1 false
  %248 = select i1 %247, i64 32, i64 %116
  %249 = icmp ne i64 %245, %248
  %250 = lshr i64 %244, 24
  %251 = and i64 %250, 4095
  %252 = icmp eq i64 %251, %136
  %253 = select i1 %252, i1 %249, i1 false
  %254 = zext i1 %253 to i64
  %255 = getelementptr i32, ptr %139, i64 %251
  %256 = getelementptr i32, ptr %255, i64 %254
  %257 = load i32, ptr %256, align 4
  %258 = ashr i64 %244, 36
  %259 = sext i32 %257 to i64
  %260 = icmp sgt i64 %258, %259
  br i1 %260, label %147, label %150
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
  br label %342

48:
  store i8 0, ptr %4, align 1
  call fastcc void @1(ptr %4, i64 %0, i64 %2, i64 %7, i64 %26, i64 %34, i64 %39, i8 0)
  %49 = load i8, ptr %4, align 1
  %50 = icmp eq i8 %49, 0
  br i1 %50, label %342, label %51

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
  br label %312

91:
  br i1 %59, label %96, label %92

92:
  %93 = getelementptr i64, ptr %60, i64 %321
  %94 = load i64, ptr %93, align 8
  %95 = add nsw i64 %94, %56
  br label %101

96:
  %97 = getelementptr i32, ptr %60, i64 %321
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
  %113 = icmp eq i64 %112, %320
  br i1 %113, label %151, label %114

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
  %129 = getelementptr i8, ptr %115, i64 96
  %130 = load i64, ptr %129, align 8
  %131 = mul nsw i64 %128, %130
  %132 = add nsw i64 %131, %127
  %133 = getelementptr i8, ptr %115, i64 136
  %134 = load i64, ptr %133, align 8
  %135 = getelementptr i8, ptr %115, i64 120
  %136 = load i64, ptr %135, align 8
  %137 = inttoptr i64 %136 to ptr
  %138 = getelementptr i32, ptr %137, i64 %134
  %139 = load i32, ptr %138, align 4
  %140 = zext i32 %139 to i64
  %141 = shl i64 %140, 36
  %142 = shl i64 %134, 24
  %143 = or i64 %142, %67
  %144 = or i64 %143, %141
  %145 = getelementptr i8, ptr %115, i64 168
  store i64 %144, ptr %145, align 8
  %146 = getelementptr i8, ptr %115, i64 104
  %147 = load i64, ptr %146, align 8
  %148 = getelementptr i8, ptr %138, i64 4
  %149 = load i32, ptr %148, align 4
  %150 = sext i32 %149 to i64
  br label %151

151:
  %152 = phi i64 [ %112, %114 ], [ %320, %111 ]
  %153 = phi i64 [ %117, %114 ], [ %319, %111 ]
  %154 = phi i64 [ %119, %114 ], [ %318, %111 ]
  %155 = phi i64 [ %121, %114 ], [ %317, %111 ]
  %156 = phi i64 [ %132, %114 ], [ %316, %111 ]
  %157 = phi i64 [ %144, %114 ], [ %315, %111 ]
  %158 = phi i64 [ %150, %114 ], [ %314, %111 ]
  %159 = phi i64 [ %147, %114 ], [ %313, %111 ]
  %160 = sub i64 %102, %153
  %161 = add i64 %160, %154
  br i1 %74, label %166, label %162

162:
  br i1 %75, label %239, label %163

163:
  %164 = mul nuw nsw i64 %321, %70
  %165 = add i64 %164, %68
  br label %212

166:
  br i1 %75, label %242, label %167

167:
  %168 = inttoptr i64 %161 to ptr
  br label %202

169:
  %170 = xor i64 %232, %83
  %171 = sub nsw i64 %170, %83
  br label %172

172:
  %173 = phi i64 [ %171, %169 ], [ %232, %231 ], [ %222, %221 ]
  %174 = mul nuw nsw i64 %85, %213
  br i1 %31, label %190, label %175

175:
  %176 = add nsw i64 %174, %68
  %177 = trunc i64 %173 to i16
  %178 = trunc i64 %173 to i32
  %179 = trunc i64 %173 to i8
  br label %233

180:
  %181 = mul nuw nsw i64 %234, %70
  %182 = add nsw i64 %176, %181
  %183 = inttoptr i64 %182 to ptr
  switch i8 %86, label %187 [
    i8 4, label %184
    i8 8, label %185
    i8 2, label %186
  ]

184:
  store i32 %178, ptr %183, align 4
  br label %188

185:
  store i64 %173, ptr %183, align 8
  br label %188

186:
  store i16 %177, ptr %183, align 2
  br label %188

187:
  store i8 %179, ptr %183, align 1
  br label %188

188:
  %189 = icmp eq i64 %235, 32
  br i1 %189, label %200, label %233

190:
  %191 = add i64 %165, %174
  %192 = inttoptr i64 %191 to ptr
  switch i8 %86, label %198 [
    i8 4, label %193
    i8 8, label %195
    i8 2, label %196
  ]

193:
  %194 = trunc i64 %173 to i32
  store i32 %194, ptr %192, align 4
  br label %200

195:
  store i64 %173, ptr %192, align 8
  br label %200

196:
  %197 = trunc i64 %173 to i16
  store i16 %197, ptr %192, align 2
  br label %200

198:
  %199 = trunc i64 %173 to i8
  store i8 %199, ptr %192, align 1
  br label %200

200:
  %201 = icmp eq i64 %214, %43
  br i1 %201, label %239, label %212

202:
  %203 = phi i64 [ 0, %167 ], [ %204, %202 ]
  %204 = add nuw nsw i64 %203, 1
  %205 = getelementptr i32, ptr %168, i64 %203
  %206 = load i32, ptr %205, align 4
  %207 = shl nsw i64 %203, 7
  %208 = add nsw i64 %207, %68
  %209 = inttoptr i64 %208 to ptr
  %210 = getelementptr i32, ptr %209, i64 %321
  store i32 %206, ptr %210, align 4
  %211 = icmp eq i64 %204, %43
  br i1 %211, label %242, label %202

212:
  %213 = phi i64 [ 0, %163 ], [ %214, %200 ]
  %214 = add nuw nsw i64 %213, 1
  %215 = mul nuw nsw i64 %213, %41
  %216 = add nsw i64 %215, %161
  %217 = inttoptr i64 %216 to ptr
  switch i8 %76, label %225 [
    i8 4, label %218
    i8 8, label %221
    i8 2, label %223
  ]

218:
  %219 = load i32, ptr %217, align 4
  %220 = zext i32 %219 to i64
  br label %231

221:
  %222 = load i64, ptr %217, align 8
  br label %172

223:
  %224 = load i16, ptr %217, align 2
  br label %228

225:
  %226 = load i8, ptr %217, align 1
  %227 = zext i8 %226 to i16
  br label %228

228:
  %229 = phi i16 [ %224, %223 ], [ %227, %225 ]
  %230 = zext i16 %229 to i64
  br label %231

231:
  %232 = phi i64 [ %230, %228 ], [ %220, %218 ]
  br i1 %80, label %169, label %172

233:
  %234 = phi i64 [ 0, %175 ], [ %235, %188 ]
  %235 = add nuw nsw i64 %234, 1
  %236 = shl nuw i64 1, %234
  %237 = and i64 %236, %26
  %238 = icmp eq i64 %237, 0
  br i1 %238, label %188, label %180

239:
  br i1 %31, label %242, label %240

240:
  %241 = select i1 %88, i64 %321, i64 32
  br label %246

242:
  %243 = getelementptr i32, ptr %90, i64 %321
  %244 = load i32, ptr %243, align 4
  %245 = zext i32 %244 to i64
  br label %246

246:
  %247 = phi i64 [ %241, %240 ], [ %245, %242 ]
  %248 = ashr i64 %160, %159
  %249 = add nsw i64 %160, %44
  %250 = ashr i64 %249, %159
  %251 = sub i64 %250, %248
  %252 = icmp slt i64 %251, 1
  br i1 %252, label %297, label %253

253:
  %254 = inttoptr i64 %156 to ptr
  %255 = inttoptr i64 %155 to ptr
  %256 = icmp ult i64 %251, 4
  br i1 %256, label %294, label %257

257:
  %258 = shl i64 %248, 3
  %259 = getelementptr i8, ptr %254, i64 %258
  %260 = shl i64 %250, 3
  %261 = getelementptr i8, ptr %254, i64 %260
  %262 = getelementptr i8, ptr %255, i64 %248
  %263 = getelementptr i8, ptr %255, i64 %250
  %264 = icmp ult ptr %259, %263
  %265 = icmp ult ptr %262, %261
  %266 = and i1 %264, %265
  br i1 %266, label %294, label %267

267:
  %268 = and i64 %251, 9223372036854775804
  %269 = and i64 %251, 3
  %270 = add i64 %248, %268
  %271 = insertelement <4 x i64> poison, i64 %247, i64 0
  %272 = shufflevector <4 x i64> %271, <4 x i64> poison, <4 x i32> zeroinitializer
  %273 = insertelement <4 x i64> poison, i64 %158, i64 0
  %274 = shufflevector <4 x i64> %273, <4 x i64> poison, <4 x i32> zeroinitializer
  %275 = insertelement <4 x i64> poison, i64 %157, i64 0
  %276 = shufflevector <4 x i64> %275, <4 x i64> poison, <4 x i32> zeroinitializer
  br label %277

277:
  %278 = phi i64 [ 0, %267 ], [ %290, %277 ]
  %279 = add i64 %248, %278
  %280 = getelementptr i64, ptr %254, i64 %279
  %281 = load <4 x i64>, ptr %280, align 8
  %282 = and <4 x i64> %281, splat (i64 63)
  %283 = icmp ne <4 x i64> %282, %272
  %284 = ashr <4 x i64> %281, splat (i64 36)
  %285 = icmp slt <4 x i64> %274, %284
  %286 = select <4 x i1> %283, <4 x i1> %285, <4 x i1> zeroinitializer
  %287 = select <4 x i1> %286, <4 x i64> splat (i64 32), <4 x i64> %272
  %288 = or <4 x i64> %287, %276
  store <4 x i64> %288, ptr %280, align 8
  %289 = getelementptr i8, ptr %255, i64 %279
  store <4 x i8> splat (i8 3), ptr %289, align 1
  %290 = add nuw i64 %278, 4
  %291 = icmp eq i64 %290, %268
  br i1 %291, label %292, label %277

292:
  %293 = icmp eq i64 %251, %268
  br i1 %293, label %297, label %294

294:
  %295 = phi i64 [ %251, %257 ], [ %251, %253 ], [ %269, %292 ]
  %296 = phi i64 [ %248, %257 ], [ %248, %253 ], [ %270, %292 ]
  br label %326

297:
  %298 = phi i64 [ %320, %312 ], [ %152, %246 ], [ %152, %292 ], [ %152, %326 ]
  %299 = phi i64 [ %319, %312 ], [ %153, %246 ], [ %153, %292 ], [ %153, %326 ]
  %300 = phi i64 [ %318, %312 ], [ %154, %246 ], [ %154, %292 ], [ %154, %326 ]
  %301 = phi i64 [ %317, %312 ], [ %155, %246 ], [ %155, %292 ], [ %155, %326 ]
  %302 = phi i64 [ %316, %312 ], [ %156, %246 ], [ %156, %292 ], [ %156, %326 ]
  %303 = phi i64 [ %315, %312 ], [ %157, %246 ], [ %157, %292 ], [ %157, %326 ]
  %304 = phi i64 [ %314, %312 ], [ %158, %246 ], [ %158, %292 ], [ %158, %326 ]
  %305 = phi i64 [ %313, %312 ], [ %159, %246 ], [ %159, %292 ], [ %159, %326 ]
  %306 = icmp eq i64 %322, 32
  br i1 %306, label %307, label %312

307:
  %308 = inttoptr i64 %39 to ptr
  %309 = load i64, ptr %308, align 8
  %310 = add nsw i64 %309, 1
  store i64 %310, ptr %308, align 8
  %311 = add nsw i64 %2, 56
  br label %342

312:
  %313 = phi i64 [ 0, %51 ], [ %305, %297 ]
  %314 = phi i64 [ 0, %51 ], [ %304, %297 ]
  %315 = phi i64 [ 0, %51 ], [ %303, %297 ]
  %316 = phi i64 [ 0, %51 ], [ %302, %297 ]
  %317 = phi i64 [ 0, %51 ], [ %301, %297 ]
  %318 = phi i64 [ 0, %51 ], [ %300, %297 ]
  %319 = phi i64 [ 0, %51 ], [ %299, %297 ]
  %320 = phi i64 [ 0, %51 ], [ %298, %297 ]
  %321 = phi i64 [ 0, %51 ], [ %322, %297 ]
  %322 = add nuw nsw i64 %321, 1
  %323 = shl nuw i64 1, %321
  %324 = and i64 %323, %34
  %325 = icmp eq i64 %324, 0
  br i1 %325, label %297, label %91

326:
  %327 = phi i64 [ %329, %326 ], [ %295, %294 ]
  %328 = phi i64 [ %330, %326 ], [ %296, %294 ]
  %329 = add nsw i64 %327, -1
  %330 = add i64 %328, 1
  %331 = getelementptr i64, ptr %254, i64 %328
  %332 = load i64, ptr %331, align 8
  %333 = and i64 %332, 63
  %334 = icmp ne i64 %333, %247
  %335 = ashr i64 %332, 36
  %336 = icmp slt i64 %158, %335
  %337 = select i1 %334, i1 %336, i1 false
  %338 = select i1 %337, i64 32, i64 %247
  %339 = or i64 %338, %157
  store i64 %339, ptr %331, align 8
  %340 = getelementptr i8, ptr %255, i64 %328
  store i8 3, ptr %340, align 1
  %341 = icmp ugt i64 %327, 1
  br i1 %341, label %326, label %297

342:
  %343 = phi i64 [ %47, %46 ], [ %311, %307 ], [ 0, %48 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %343
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
  br label %258

48:
  store i8 0, ptr %4, align 1
  call fastcc void @1(ptr %4, i64 %0, i64 %2, i64 %7, i64 %26, i64 %34, i64 %39, i8 1)
  %49 = load i8, ptr %4, align 1
  %50 = icmp eq i8 %49, 0
  br i1 %50, label %258, label %51

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
  br label %236

81:
  br i1 %59, label %86, label %82

82:
  %83 = getelementptr i64, ptr %60, i64 %244
  %84 = load i64, ptr %83, align 8
  %85 = add nsw i64 %84, %56
  br label %91

86:
  %87 = getelementptr i32, ptr %60, i64 %244
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
  %103 = icmp eq i64 %102, %243
  br i1 %103, label %129, label %104

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
  %114 = getelementptr i8, ptr %105, i64 136
  %115 = load i64, ptr %114, align 8
  %116 = getelementptr i8, ptr %105, i64 120
  %117 = load i64, ptr %116, align 8
  %118 = inttoptr i64 %117 to ptr
  %119 = getelementptr i32, ptr %118, i64 %115
  %120 = load i32, ptr %119, align 4
  %121 = zext i32 %120 to i64
  %122 = shl i64 %121, 36
  %123 = shl i64 %115, 24
  %124 = or i64 %123, %67
  %125 = or i64 %124, %122
  %126 = getelementptr i8, ptr %105, i64 168
  store i64 %125, ptr %126, align 8
  %127 = getelementptr i8, ptr %105, i64 104
  %128 = load i64, ptr %127, align 8
  br label %129

129:
  %130 = phi i64 [ %102, %104 ], [ %243, %101 ]
  %131 = phi i64 [ %107, %104 ], [ %242, %101 ]
  %132 = phi i64 [ %109, %104 ], [ %241, %101 ]
  %133 = phi i64 [ %111, %104 ], [ %240, %101 ]
  %134 = phi i64 [ %113, %104 ], [ %239, %101 ]
  %135 = phi i64 [ %125, %104 ], [ %238, %101 ]
  %136 = phi i64 [ %128, %104 ], [ %237, %101 ]
  br i1 %68, label %137, label %139

137:
  %138 = sub nsw i64 %92, %131
  br label %178

139:
  %140 = mul nuw nsw i64 %244, %72
  %141 = add i64 %75, %140
  %142 = sub i64 %92, %131
  %143 = add i64 %142, %132
  br label %144

144:
  %145 = phi i64 [ 0, %139 ], [ %146, %176 ]
  %146 = add nuw nsw i64 %145, 1
  br i1 %70, label %147, label %164

147:
  %148 = mul nuw nsw i64 %74, %145
  %149 = add i64 %141, %148
  %150 = inttoptr i64 %149 to ptr
  switch i8 %76, label %158 [
    i8 4, label %151
    i8 8, label %154
    i8 2, label %156
  ]

151:
  %152 = load i32, ptr %150, align 4
  %153 = zext i32 %152 to i64
  br label %164

154:
  %155 = load i64, ptr %150, align 8
  br label %164

156:
  %157 = load i16, ptr %150, align 2
  br label %161

158:
  %159 = load i8, ptr %150, align 1
  %160 = zext i8 %159 to i16
  br label %161

161:
  %162 = phi i16 [ %157, %156 ], [ %160, %158 ]
  %163 = zext i16 %162 to i64
  br label %164

164:
  %165 = phi i64 [ %57, %144 ], [ %163, %161 ], [ %153, %151 ], [ %155, %154 ]
  %166 = mul nuw nsw i64 %145, %41
  %167 = add nsw i64 %143, %166
  %168 = inttoptr i64 %167 to ptr
  switch i8 %77, label %174 [
    i8 4, label %169
    i8 8, label %171
    i8 2, label %172
  ]

169:
  %170 = trunc i64 %165 to i32
  store i32 %170, ptr %168, align 4
  br label %176

171:
  store i64 %165, ptr %168, align 8
  br label %176

172:
  %173 = trunc i64 %165 to i16
  store i16 %173, ptr %168, align 2
  br label %176

174:
  %175 = trunc i64 %165 to i8
  store i8 %175, ptr %168, align 1
  br label %176

176:
  %177 = icmp eq i64 %146, %43
  br i1 %177, label %178, label %144

178:
  %179 = phi i64 [ %138, %137 ], [ %142, %176 ]
  %180 = ashr i64 %179, %136
  %181 = add nsw i64 %179, %44
  %182 = ashr i64 %181, %136
  %183 = sub i64 %182, %180
  %184 = icmp slt i64 %183, 1
  br i1 %184, label %215, label %185

185:
  %186 = select i1 %80, i64 %244, i64 32
  %187 = inttoptr i64 %133 to ptr
  %188 = inttoptr i64 %130 to ptr
  %189 = getelementptr i8, ptr %188, i64 88
  %190 = getelementptr i8, ptr %188, i64 56
  %191 = getelementptr i8, ptr %188, i64 96
  %192 = inttoptr i64 %134 to ptr
  %193 = or i64 %135, %186
  br label %249

194:
  %195 = load i64, ptr %189, align 8
  %196 = inttoptr i64 %195 to ptr
  %197 = load i64, ptr %196, align 8
  %198 = icmp slt i64 %197, 1
  br i1 %198, label %212, label %199

199:
  %200 = phi i64 [ %201, %199 ], [ 0, %194 ]
  %201 = add nuw nsw i64 %200, 1
  %202 = load i64, ptr %190, align 8
  %203 = inttoptr i64 %202 to ptr
  %204 = load i64, ptr %203, align 8
  %205 = shl nsw i64 %200, 3
  %206 = load i64, ptr %191, align 8
  %207 = mul nsw i64 %205, %206
  %208 = add nsw i64 %207, %204
  %209 = inttoptr i64 %208 to ptr
  %210 = getelementptr i64, ptr %209, i64 %251
  store i64 0, ptr %210, align 8
  %211 = icmp eq i64 %197, %201
  br i1 %211, label %212, label %199

212:
  %213 = getelementptr i64, ptr %192, i64 %251
  store i64 %193, ptr %213, align 8
  store i8 1, ptr %254, align 1
  %214 = icmp ugt i64 %250, 1
  br i1 %214, label %249, label %215

215:
  %216 = phi i64 [ %243, %236 ], [ %130, %178 ], [ %130, %212 ]
  %217 = phi i64 [ %242, %236 ], [ %131, %178 ], [ %131, %212 ]
  %218 = phi i64 [ %241, %236 ], [ %132, %178 ], [ %132, %212 ]
  %219 = phi i64 [ %240, %236 ], [ %133, %178 ], [ %133, %212 ]
  %220 = phi i64 [ %239, %236 ], [ %134, %178 ], [ %134, %212 ]
  %221 = phi i64 [ %238, %236 ], [ %135, %178 ], [ %135, %212 ]
  %222 = phi i64 [ %237, %236 ], [ %136, %178 ], [ %136, %212 ]
  %223 = icmp eq i64 %245, 32
  br i1 %223, label %224, label %236

224:
  %225 = getelementptr i8, ptr %35, i64 112
  %226 = load i64, ptr %225, align 8
  %227 = inttoptr i64 %226 to ptr
  %228 = getelementptr i32, ptr %227, i64 %9
  %229 = load i32, ptr %228, align 4
  %230 = trunc nuw i64 %26 to i32
  %231 = or i32 %229, %230
  store i32 %231, ptr %228, align 4
  %232 = inttoptr i64 %39 to ptr
  %233 = load i64, ptr %232, align 8
  %234 = add nsw i64 %233, 1
  store i64 %234, ptr %232, align 8
  %235 = add nsw i64 %2, 56
  br label %258

236:
  %237 = phi i64 [ 0, %51 ], [ %222, %215 ]
  %238 = phi i64 [ 0, %51 ], [ %221, %215 ]
  %239 = phi i64 [ 0, %51 ], [ %220, %215 ]
  %240 = phi i64 [ 0, %51 ], [ %219, %215 ]
  %241 = phi i64 [ 0, %51 ], [ %218, %215 ]
  %242 = phi i64 [ 0, %51 ], [ %217, %215 ]
  %243 = phi i64 [ 0, %51 ], [ %216, %215 ]
  %244 = phi i64 [ 0, %51 ], [ %245, %215 ]
  %245 = add nuw nsw i64 %244, 1
  %246 = shl nuw i64 1, %244
  %247 = and i64 %246, %34
  %248 = icmp eq i64 %247, 0
  br i1 %248, label %215, label %81

249:
  %250 = phi i64 [ %183, %185 ], [ %252, %212 ]
  %251 = phi i64 [ %180, %185 ], [ %253, %212 ]
  %252 = add nsw i64 %250, -1
  %253 = add i64 %251, 1
  %254 = getelementptr i8, ptr %187, i64 %251
  %255 = load i8, ptr %254, align 1
  %256 = and i8 %255, 2
  %257 = icmp eq i8 %256, 0
  br i1 %257, label %212, label %194

258:
  %259 = phi i64 [ %47, %46 ], [ %235, %224 ], [ 0, %48 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %259
}

declare i64 @llvm.ctpop.i64(i64)

declare i64 @llvm.umax.i64(i64, i64)

declare void @llvm.lifetime.start.p0(ptr)

declare void @llvm.lifetime.end.p0(ptr)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.vector.reduce.add.v4i64(<4 x i64>)


