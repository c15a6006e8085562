; Made from load_store.py by `python -m bench.checks`.

define internal fastcc void @0(ptr noalias nonnull writeonly %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5, i64 %6) {
  %8 = inttoptr i64 %6 to ptr
  %9 = lshr i64 %3, 8
  %10 = and i64 %9, 255
  %11 = lshr i64 %3, 16
  %12 = and i64 %11, 255
  %13 = mul nuw nsw i64 %10, %12
  %14 = getelementptr i8, ptr %8, i64 16
  %15 = load i64, ptr %14, align 8
  %16 = icmp eq i64 %15, 0
  %17 = and i64 %3, 4
  %18 = icmp eq i64 %17, 0
  %19 = select i1 %16, i1 true, i1 %18
  %20 = tail call i64 @llvm.ctpop.i64(i64 %4)
  br i1 %19, label %27, label %21

21:
  %22 = icmp ugt i64 %20, 1
  %23 = icmp ne i64 %4, 4294967295
  %24 = and i1 %23, %22
  br i1 %24, label %25, label %27

25:
  %26 = phi i8 [ 0, %87 ], [ 0, %21 ], [ 0, %83 ], [ 0, %69 ], [ 0, %64 ], [ 1, %92 ]
  store i8 %26, ptr %0, align 1
  ret void

27:
  %28 = inttoptr i64 %2 to ptr
  %29 = getelementptr i8, ptr %28, i64 32
  %30 = load i64, ptr %29, align 8
  %31 = add nsw i64 %30, %1
  %32 = inttoptr i64 %31 to ptr
  %33 = getelementptr i8, ptr %32, i64 144
  %34 = load i64, ptr %33, align 8
  %35 = shl i64 %34, 22
  %36 = getelementptr i8, ptr %28, i64 8
  %37 = getelementptr i8, ptr %28, i64 16
  %38 = and i64 %3, 2
  %39 = icmp eq i64 %38, 0
  %40 = getelementptr i8, ptr %8, i64 8
  %41 = add nsw i64 %13, -1
  %42 = icmp ult i64 %20, 2
  %43 = select i1 %18, i1 true, i1 %42
  %44 = ashr i64 %3, 32
  %45 = lshr i64 %13, %44
  %46 = getelementptr i8, ptr %8, i64 24
  %47 = and i64 %3, 64
  %48 = icmp eq i64 %47, 0
  br label %94

49:
  %50 = load i64, ptr %36, align 8
  %51 = add nsw i64 %50, %1
  %52 = load i64, ptr %37, align 8
  %53 = inttoptr i64 %51 to ptr
  br i1 %39, label %58, label %54

54:
  %55 = getelementptr i64, ptr %53, i64 %95
  %56 = load i64, ptr %55, align 8
  %57 = add nsw i64 %56, %52
  br label %64

58:
  %59 = getelementptr i32, ptr %53, i64 %95
  %60 = load i32, ptr %59, align 4
  %61 = trunc i64 %52 to i32
  %62 = add i32 %60, %61
  %63 = zext i32 %62 to i64
  br label %64

64:
  %65 = phi i64 [ %63, %58 ], [ %57, %54 ]
  %66 = load i64, ptr %8, align 8
  %67 = sub nsw i64 %65, %66
  %68 = icmp sgt i64 %67, -1
  br i1 %68, label %69, label %25

69:
  %70 = load i64, ptr %40, align 8
  %71 = icmp slt i64 %67, %70
  %72 = and i64 %65, %41
  %73 = icmp eq i64 %72, 0
  %74 = select i1 %71, i1 %73, i1 false
  br i1 %74, label %75, label %25

75:
  br i1 %16, label %92, label %76

76:
  %77 = select i1 %43, i64 %95, i64 32
  %78 = or i64 %77, %35
  %79 = ashr i64 %65, %44
  br label %80

80:
  %81 = phi i64 [ 0, %76 ], [ %101, %87 ]
  %82 = icmp eq i64 %81, %45
  br i1 %82, label %92, label %100

83:
  %84 = and i64 %106, 1099507433535
  %85 = icmp eq i64 %84, %78
  %86 = select i1 %48, i1 %85, i1 false
  br i1 %86, label %87, label %25

87:
  %88 = icmp eq i64 %110, 0
  %89 = and i64 %110, 1099507433535
  %90 = icmp eq i64 %89, %78
  %91 = select i1 %88, i1 true, i1 %90
  br i1 %91, label %80, label %25

92:
  %93 = icmp eq i64 %96, 32
  br i1 %93, label %25, label %94

94:
  %95 = phi i64 [ 0, %27 ], [ %96, %92 ]
  %96 = add nuw nsw i64 %95, 1
  %97 = shl nuw i64 1, %95
  %98 = and i64 %97, %5
  %99 = icmp eq i64 %98, 0
  br i1 %99, label %92, label %49

100:
  %101 = add nuw nsw i64 %81, 1
  %102 = add nsw i64 %81, %79
  %103 = shl nsw i64 %102, 3
  %104 = add nsw i64 %103, %15
  %105 = inttoptr i64 %104 to ptr
  %106 = load i64, ptr %105, align 8
  %107 = load i64, ptr %46, align 8
  %108 = add nsw i64 %107, %103
  %109 = inttoptr i64 %108 to ptr
  %110 = load i64, ptr %109, align 8
  %111 = icmp eq i64 %106, 0
  br i1 %111, label %87, label %83
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
  store i8 0, ptr %4, align 1
  call fastcc void @0(ptr %4, i64 %0, i64 %2, i64 %7, i64 %26, i64 %34, i64 %38)
  %39 = load i8, ptr %4, align 1
  %40 = icmp eq i8 %39, 0
  br i1 %40, label %207, label %41

41:
  %42 = getelementptr i8, ptr %5, i64 8
  %43 = getelementptr i8, ptr %5, i64 16
  %44 = and i64 %7, 2
  %45 = icmp eq i64 %44, 0
  %46 = lshr i64 %7, 8
  %47 = and i64 %46, 255
  %48 = lshr i64 %7, 24
  %49 = and i64 %48, 255
  %50 = lshr i64 %7, 16
  %51 = and i64 %50, 255
  %52 = icmp eq i64 %51, 0
  %53 = trunc i64 %46 to i8
  %54 = and i64 %7, 1
  %55 = icmp ne i64 %54, 0
  %56 = icmp ult i64 %47, 8
  %57 = select i1 %55, i1 %56, i1 false
  %58 = shl nuw nsw i64 %47, 3
  %59 = add nsw i64 %58, -1
  %60 = shl nuw nsw i64 1, %59
  %61 = tail call i64 @llvm.umax.i64(i64 %49, i64 4)
  %62 = shl nuw nsw i64 %61, 5
  %63 = trunc i64 %48 to i8
  %64 = inttoptr i64 %38 to ptr
  %65 = getelementptr i8, ptr %64, i64 16
  %66 = getelementptr i8, ptr %35, i64 120
  %67 = getelementptr i8, ptr %35, i64 136
  %68 = getelementptr i8, ptr %35, i64 144
  %69 = shl i64 %9, 6
  %70 = add i64 %69, 64
  %71 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %72 = icmp ult i64 %71, 2
  %73 = select i1 %31, i1 true, i1 %72
  %74 = mul nuw nsw i64 %47, %51
  %75 = ashr i64 %7, 32
  %76 = lshr i64 %74, %75
  %77 = icmp eq i64 %76, 0
  %78 = getelementptr i8, ptr %64, i64 24
  %79 = getelementptr i8, ptr %35, i64 8
  br label %192

80:
  %81 = load i64, ptr %42, align 8
  %82 = add nsw i64 %81, %0
  %83 = load i64, ptr %43, align 8
  %84 = inttoptr i64 %82 to ptr
  br i1 %45, label %89, label %85

85:
  %86 = getelementptr i64, ptr %84, i64 %193
  %87 = load i64, ptr %86, align 8
  %88 = add nsw i64 %87, %83
  br label %95

89:
  %90 = getelementptr i32, ptr %84, i64 %193
  %91 = load i32, ptr %90, align 4
  %92 = trunc i64 %83 to i32
  %93 = add i32 %91, %92
  %94 = zext i32 %93 to i64
  br label %95

95:
  %96 = phi i64 [ %94, %89 ], [ %88, %85 ]
  br i1 %52, label %165, label %97

97:
  %98 = mul nuw nsw i64 %193, %49
  %99 = add i64 %98, %0
  br label %138

100:
  %101 = xor i64 %158, %60
  %102 = sub nsw i64 %101, %60
  br label %103

103:
  %104 = phi i64 [ %102, %100 ], [ %158, %157 ], [ %148, %147 ]
  br i1 %31, label %123, label %105

105:
  %106 = mul nuw nsw i64 %62, %139
  %107 = add i64 %106, %0
  %108 = trunc i64 %104 to i16
  %109 = trunc i64 %104 to i32
  %110 = trunc i64 %104 to i8
  br label %159

111:
  %112 = load i64, ptr %5, align 8
  %113 = mul nuw nsw i64 %160, %49
  %114 = add i64 %107, %113
  %115 = add i64 %114, %112
  %116 = inttoptr i64 %115 to ptr
  switch i8 %63, label %120 [
    i8 4, label %117
    i8 8, label %118
    i8 2, label %119
  ]

117:
  store i32 %109, ptr %116, align 4
  br label %121

118:
  store i64 %104, ptr %116, align 8
  br label %121

119:
  store i16 %108, ptr %116, align 2
  br label %121

120:
  store i8 %110, ptr %116, align 1
  br label %121

121:
  %122 = icmp eq i64 %161, 32
  br i1 %122, label %136, label %159

123:
  %124 = load i64, ptr %5, align 8
  %125 = mul nuw nsw i64 %62, %139
  %126 = add i64 %99, %125
  %127 = add i64 %126, %124
  %128 = inttoptr i64 %127 to ptr
  switch i8 %63, label %134 [
    i8 4, label %129
    i8 8, label %131
    i8 2, label %132
  ]

129:
  %130 = trunc i64 %104 to i32
  store i32 %130, ptr %128, align 4
  br label %136

131:
  store i64 %104, ptr %128, align 8
  br label %136

132:
  %133 = trunc i64 %104 to i16
  store i16 %133, ptr %128, align 2
  br label %136

134:
  %135 = trunc i64 %104 to i8
  store i8 %135, ptr %128, align 1
  br label %136

136:
  %137 = icmp eq i64 %140, %51
  br i1 %137, label %165, label %138

138:
  %139 = phi i64 [ 0, %97 ], [ %140, %136 ]
  %140 = add nuw nsw i64 %139, 1
  %141 = mul nuw nsw i64 %139, %47
  %142 = add nsw i64 %141, %96
  %143 = inttoptr i64 %142 to ptr
  switch i8 %53, label %151 [
    i8 4, label %144
    i8 8, label %147
    i8 2, label %149
  ]

144:
  %145 = load i32, ptr %143, align 4
  %146 = zext i32 %145 to i64
  br label %157

147:
  %148 = load i64, ptr %143, align 8
  br label %103

149:
  %150 = load i16, ptr %143, align 2
  br label %154

151:
  %152 = load i8, ptr %143, align 1
  %153 = zext i8 %152 to i16
  br label %154

154:
  %155 = phi i16 [ %150, %149 ], [ %153, %151 ]
  %156 = zext i16 %155 to i64
  br label %157

157:
  %158 = phi i64 [ %156, %154 ], [ %146, %144 ]
  br i1 %57, label %100, label %103

159:
  %160 = phi i64 [ 0, %105 ], [ %161, %121 ]
  %161 = add nuw nsw i64 %160, 1
  %162 = shl nuw i64 1, %160
  %163 = and i64 %162, %26
  %164 = icmp eq i64 %163, 0
  br i1 %164, label %121, label %111

165:
  %166 = load i64, ptr %65, align 8
  %167 = icmp eq i64 %166, 0
  br i1 %167, label %183, label %168

168:
  %169 = load i64, ptr %66, align 8
  %170 = inttoptr i64 %169 to ptr
  %171 = load i64, ptr %67, align 8
  %172 = getelementptr i64, ptr %170, i64 %171
  %173 = load i64, ptr %172, align 8
  %174 = shl i64 %173, 40
  %175 = load i64, ptr %68, align 8
  %176 = shl i64 %175, 22
  %177 = select i1 %73, i64 %193, i64 32
  %178 = or i64 %177, %70
  %179 = or i64 %178, %174
  %180 = or i64 %179, %176
  br i1 %77, label %183, label %181

181:
  %182 = ashr i64 %96, %75
  br label %198

183:
  %184 = load i64, ptr %79, align 8
  %185 = inttoptr i64 %184 to ptr
  %186 = load i64, ptr %185, align 8
  %187 = add nsw i64 %186, %74
  store i64 %187, ptr %185, align 8
  br label %188

188:
  %189 = icmp eq i64 %194, 32
  br i1 %189, label %190, label %192

190:
  %191 = add nsw i64 %2, 56
  br label %207

192:
  %193 = phi i64 [ 0, %41 ], [ %194, %188 ]
  %194 = add nuw nsw i64 %193, 1
  %195 = shl nuw i64 1, %193
  %196 = and i64 %195, %34
  %197 = icmp eq i64 %196, 0
  br i1 %197, label %188, label %80

198:
  %199 = phi i64 [ 0, %181 ], [ %200, %198 ]
  %200 = add nuw nsw i64 %199, 1
  %201 = load i64, ptr %78, align 8
  %202 = add nsw i64 %199, %182
  %203 = shl nsw i64 %202, 3
  %204 = add nsw i64 %201, %203
  %205 = inttoptr i64 %204 to ptr
  store i64 %180, ptr %205, align 8
  %206 = icmp eq i64 %200, %76
  br i1 %206, label %183, label %198

207:
  %208 = phi i64 [ %191, %190 ], [ 0, %24 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %208
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
  store i8 0, ptr %4, align 1
  call fastcc void @0(ptr %4, i64 %0, i64 %2, i64 %7, i64 %26, i64 %34, i64 %38)
  %39 = load i8, ptr %4, align 1
  %40 = icmp eq i8 %39, 0
  br i1 %40, label %254, label %41

41:
  %42 = getelementptr i8, ptr %35, i64 112
  %43 = load i64, ptr %42, align 8
  %44 = inttoptr i64 %43 to ptr
  %45 = getelementptr i32, ptr %44, i64 %9
  %46 = load i32, ptr %45, align 4
  %47 = trunc nuw i64 %26 to i32
  %48 = or i32 %46, %47
  store i32 %48, ptr %45, align 4
  %49 = getelementptr i8, ptr %5, i64 8
  %50 = getelementptr i8, ptr %5, i64 16
  %51 = and i64 %7, 2
  %52 = icmp eq i64 %51, 0
  %53 = inttoptr i64 %38 to ptr
  %54 = getelementptr i8, ptr %53, i64 16
  %55 = getelementptr i8, ptr %35, i64 120
  %56 = getelementptr i8, ptr %35, i64 136
  %57 = getelementptr i8, ptr %35, i64 144
  %58 = shl i64 %9, 6
  %59 = add i64 %58, 64
  %60 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %61 = icmp ult i64 %60, 2
  %62 = select i1 %31, i1 true, i1 %61
  %63 = lshr i64 %7, 8
  %64 = and i64 %63, 255
  %65 = lshr i64 %7, 16
  %66 = and i64 %65, 255
  %67 = mul nuw nsw i64 %64, %66
  %68 = ashr i64 %7, 32
  %69 = lshr i64 %67, %68
  %70 = icmp eq i64 %69, 0
  %71 = icmp eq i64 %64, 0
  %72 = and i64 %7, 32
  %73 = icmp eq i64 %72, 0
  %74 = lshr i64 %7, 24
  %75 = and i64 %74, 255
  %76 = tail call i64 @llvm.umax.i64(i64 %75, i64 4)
  %77 = shl nuw nsw i64 %76, 5
  %78 = trunc i64 %74 to i8
  %79 = trunc i64 %63 to i8
  %80 = icmp eq i64 %64, 8
  %81 = shl nuw nsw i64 %64, 3
  %82 = shl nsw i64 -1, %81
  %83 = xor i64 %82, -1
  %84 = select i1 %80, i64 -1, i64 %83
  %85 = getelementptr i8, ptr %53, i64 24
  %86 = icmp eq i64 %66, 0
  %87 = getelementptr i8, ptr %35, i64 8
  br label %174

88:
  %89 = load i64, ptr %49, align 8
  %90 = add nsw i64 %89, %0
  %91 = load i64, ptr %50, align 8
  %92 = inttoptr i64 %90 to ptr
  br i1 %52, label %97, label %93

93:
  %94 = getelementptr i64, ptr %92, i64 %175
  %95 = load i64, ptr %94, align 8
  %96 = add nsw i64 %95, %91
  br label %103

97:
  %98 = getelementptr i32, ptr %92, i64 %175
  %99 = load i32, ptr %98, align 4
  %100 = trunc i64 %91 to i32
  %101 = add i32 %99, %100
  %102 = zext i32 %101 to i64
  br label %103

103:
  %104 = phi i64 [ %102, %97 ], [ %96, %93 ]
  %105 = load i64, ptr %54, align 8
  %106 = icmp eq i64 %105, 0
  %107 = select i1 %106, i1 true, i1 %70
  br i1 %107, label %124, label %108

108:
  %109 = load i64, ptr %55, align 8
  %110 = inttoptr i64 %109 to ptr
  %111 = load i64, ptr %56, align 8
  %112 = getelementptr i64, ptr %110, i64 %111
  %113 = load i64, ptr %112, align 8
  %114 = shl i64 %113, 40
  %115 = load i64, ptr %57, align 8
  %116 = shl i64 %115, 22
  %117 = or i64 %114, %116
  %118 = select i1 %62, i64 %175, i64 32
  %119 = mul nuw nsw i64 %175, %75
  %120 = add i64 %119, %0
  %121 = ashr i64 %104, %68
  %122 = or i64 %118, %59
  %123 = or i64 %122, %117
  br label %180

124:
  br i1 %86, label %164, label %125

125:
  %126 = mul nuw nsw i64 %175, %75
  %127 = add i64 %126, %0
  br label %128

128:
  %129 = phi i64 [ 0, %125 ], [ %130, %162 ]
  %130 = add nuw nsw i64 %129, 1
  %131 = load i64, ptr %5, align 8
  br i1 %73, label %132, label %150

132:
  %133 = mul nuw nsw i64 %77, %129
  %134 = add i64 %127, %133
  %135 = add i64 %134, %131
  %136 = inttoptr i64 %135 to ptr
  switch i8 %78, label %144 [
    i8 4, label %137
    i8 8, label %140
    i8 2, label %142
  ]

137:
  %138 = load i32, ptr %136, align 4
  %139 = zext i32 %138 to i64
  br label %150

140:
  %141 = load i64, ptr %136, align 8
  br label %150

142:
  %143 = load i16, ptr %136, align 2
  br label %147

144:
  %145 = load i8, ptr %136, align 1
  %146 = zext i8 %145 to i16
  br label %147

147:
  %148 = phi i16 [ %143, %142 ], [ %146, %144 ]
  %149 = zext i16 %148 to i64
  br label %150

150:
  %151 = phi i64 [ %141, %140 ], [ %149, %147 ], [ %139, %137 ], [ %131, %128 ]
  %152 = mul nuw nsw i64 %129, %64
  %153 = add nsw i64 %152, %104
  %154 = inttoptr i64 %153 to ptr
  switch i8 %79, label %160 [
    i8 4, label %155
    i8 8, label %157
    i8 2, label %158
  ]

155:
  %156 = trunc i64 %151 to i32
  store i32 %156, ptr %154, align 4
  br label %162

157:
  store i64 %151, ptr %154, align 8
  br label %162

158:
  %159 = trunc i64 %151 to i16
  store i16 %159, ptr %154, align 2
  br label %162

160:
  %161 = trunc i64 %151 to i8
  store i8 %161, ptr %154, align 1
  br label %162

162:
  %163 = icmp eq i64 %130, %66
  br i1 %163, label %164, label %128

164:
  %165 = load i64, ptr %87, align 8
  %166 = inttoptr i64 %165 to ptr
  %167 = getelementptr i8, ptr %166, i64 8
  %168 = load i64, ptr %167, align 8
  %169 = add nsw i64 %168, %67
  store i64 %169, ptr %167, align 8
  br label %170

170:
  %171 = icmp eq i64 %176, 32
  br i1 %171, label %172, label %174

172:
  %173 = add nsw i64 %2, 56
  br label %254

174:
  %175 = phi i64 [ 0, %41 ], [ %176, %170 ]
  %176 = add nuw nsw i64 %175, 1
  %177 = shl nuw i64 1, %175
  %178 = and i64 %177, %34
  %179 = icmp eq i64 %178, 0
  br i1 %179, label %170, label %88

180:
  %181 = phi i64 [ 0, %108 ], [ %182, %244 ]
  %182 = add nuw nsw i64 %181, 1
  br i1 %71, label %183, label %248

183:
  %184 = phi i64 [ 0, %180 ], [ %253, %248 ]
  %185 = load i64, ptr %5, align 8
  br i1 %73, label %186, label %204

186:
  %187 = mul i64 %77, %184
  %188 = add i64 %120, %187
  %189 = add i64 %188, %185
  %190 = inttoptr i64 %189 to ptr
  switch i8 %78, label %198 [
    i8 4, label %191
    i8 8, label %194
    i8 2, label %196
  ]

191:
  %192 = load i32, ptr %190, align 4
  %193 = zext i32 %192 to i64
  br label %204

194:
  %195 = load i64, ptr %190, align 8
  br label %204

196:
  %197 = load i16, ptr %190, align 2
  br label %201

198:
  %199 = load i8, ptr %190, align 1
  %200 = zext i8 %199 to i16
  br label %201

201:
  %202 = phi i16 [ %197, %196 ], [ %200, %198 ]
  %203 = zext i16 %202 to i64
  br label %204

204:
  %205 = phi i64 [ %195, %194 ], [ %203, %201 ], [ %193, %191 ], [ %185, %183 ]
  %206 = mul nsw i64 %184, %64
  %207 = add nsw i64 %206, %104
  %208 = inttoptr i64 %207 to ptr
  switch i8 %79, label %216 [
    i8 4, label %209
    i8 8, label %212
    i8 2, label %214
  ]

209:
  %210 = load i32, ptr %208, align 4
  %211 = zext i32 %210 to i64
  br label %222

212:
  %213 = load i64, ptr %208, align 8
  br label %222

214:
  %215 = load i16, ptr %208, align 2
  br label %219

216:
  %217 = load i8, ptr %208, align 1
  %218 = zext i8 %217 to i16
  br label %219

219:
  %220 = phi i16 [ %215, %214 ], [ %218, %216 ]
  %221 = zext i16 %220 to i64
  br label %222

222:
  %223 = phi i64 [ %221, %219 ], [ %211, %209 ], [ %213, %212 ]
  %224 = and i64 %205, %84
  %225 = icmp ne i64 %223, %224
  %226 = load i64, ptr %54, align 8
  %227 = add nsw i64 %181, %121
  %228 = shl nsw i64 %227, 3
  %229 = add nsw i64 %226, %228
  %230 = inttoptr i64 %229 to ptr
  %231 = load i64, ptr %230, align 8
  %232 = icmp eq i64 %231, 0
  br i1 %232, label %233, label %241

233:
  %234 = load i64, ptr %85, align 8
  %235 = add nsw i64 %234, %228
  %236 = inttoptr i64 %235 to ptr
  %237 = load i64, ptr %236, align 8
  %238 = icmp eq i64 %237, 0
  %239 = select i1 %238, i1 true, i1 %225
  %240 = select i1 %239, i64 0, i64 2097152
  br label %244

241:
  %242 = and i64 %231, 3145728
  %243 = select i1 %225, i64 1048576, i64 %242
  br label %244

244:
  %245 = phi i64 [ %243, %241 ], [ %240, %233 ]
  %246 = or i64 %123, %245
  store i64 %246, ptr %230, align 8
  %247 = icmp eq i64 %182, %69
  br i1 %247, label %124, label %180

248:
  %249 = shl i64 %181, %68
  %250 = sdiv i64 %249, %64
  %251 = srem i64 %249, %64
  %252 = ashr i64 %251, 63
  %253 = add i64 %252, %250
  br label %183

254:
  %255 = phi i64 [ %173, %172 ], [ 0, %24 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %255
}

define internal fastcc void @1(ptr noalias nonnull writeonly %0, i64 %1, i64 %2, i64 %3, i64 %4, i64 %5) {
  %7 = inttoptr i64 %1 to ptr
  %8 = getelementptr i8, ptr %7, i64 120
  %9 = load i64, ptr %8, align 8
  %10 = inttoptr i64 %9 to ptr
  %11 = getelementptr i8, ptr %7, i64 136
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr i64, ptr %10, i64 %12
  %14 = getelementptr i8, ptr %13, i64 8
  %15 = load i64, ptr %14, align 8
  %16 = getelementptr i8, ptr %7, i64 128
  %17 = load i64, ptr %16, align 8
  %18 = getelementptr i8, ptr %7, i64 56
  %19 = load i64, ptr %18, align 8
  %20 = inttoptr i64 %19 to ptr
  %21 = load i64, ptr %20, align 8
  %22 = shl nsw i64 %17, 3
  %23 = getelementptr i8, ptr %7, i64 104
  %24 = load i64, ptr %23, align 8
  %25 = mul nsw i64 %22, %24
  %26 = add nsw i64 %25, %21
  %27 = inttoptr i64 %26 to ptr
  %28 = ashr i64 %2, 2
  %29 = add nsw i64 %3, %2
  %30 = ashr i64 %29, 2
  %31 = sub nsw i64 %30, %28
  %32 = icmp slt i64 %31, 1
  br i1 %32, label %35, label %33

33:
  %34 = getelementptr i8, ptr %7, i64 64
  br label %36

35:
  store ptr null, ptr %0, align 8
  ret void

36:
  %37 = phi i64 [ %28, %33 ], [ %40, %36 ]
  %38 = phi i64 [ %31, %33 ], [ %39, %36 ]
  %39 = add nsw i64 %38, -1
  %40 = add nsw i64 %37, 1
  %41 = getelementptr i64, ptr %27, i64 %37
  %42 = load i64, ptr %41, align 8
  %43 = and i64 %42, 63
  %44 = icmp ne i64 %43, %5
  %45 = ashr i64 %42, 36
  %46 = icmp slt i64 %15, %45
  %47 = select i1 %44, i1 %46, i1 false
  %48 = select i1 %47, i64 32, i64 %5
  %49 = or i64 %48, %4
  store i64 %49, ptr %41, align 8
  %50 = load i64, ptr %34, align 8
  %51 = inttoptr i64 %50 to ptr
  %52 = getelementptr i8, ptr %51, i64 %37
  store i8 3, ptr %52, align 1
  %53 = icmp ugt i64 %38, 1
  br i1 %53, label %36, label %35
}

define internal fastcc void @2(ptr noalias nonnull writeonly %0, i64 %1, i64 %2, i64 %3) {
  %5 = inttoptr i64 %1 to ptr
  %6 = getelementptr i8, ptr %5, i64 120
  %7 = load i64, ptr %6, align 8
  %8 = inttoptr i64 %7 to ptr
  %9 = getelementptr i8, ptr %5, i64 136
  %10 = load i64, ptr %9, align 8
  %11 = getelementptr i8, ptr %5, i64 96
  %12 = load i64, ptr %11, align 8
  %13 = inttoptr i64 %12 to ptr
  %14 = load i64, ptr %13, align 8
  %15 = tail call i64 @llvm.smax.i64(i64 %14, i64 0)
  %16 = getelementptr i8, ptr %5, i64 56
  %17 = getelementptr i8, ptr %5, i64 104
  %18 = getelementptr i8, ptr %5, i64 88
  %19 = icmp eq i64 %3, 32
  br label %20

20:
  %21 = phi i64 [ 0, %4 ], [ %38, %29 ]
  %22 = icmp eq i64 %21, %15
  br i1 %22, label %35, label %37

23:
  %24 = and i64 %48, 63
  %25 = icmp ne i64 %24, %3
  %26 = or i1 %19, %25
  %27 = zext i1 %26 to i64
  %28 = add nsw i64 %10, %27
  br label %29

29:
  %30 = phi i64 [ %28, %23 ], [ %52, %37 ]
  %31 = getelementptr i64, ptr %8, i64 %30
  %32 = load i64, ptr %31, align 8
  %33 = ashr i64 %48, 36
  %34 = icmp slt i64 %32, %33
  br i1 %34, label %35, label %20

35:
  %36 = phi i8 [ 0, %29 ], [ 1, %20 ]
  store i8 %36, ptr %0, align 1
  ret void

37:
  %38 = add nuw i64 %21, 1
  %39 = load i64, ptr %16, align 8
  %40 = inttoptr i64 %39 to ptr
  %41 = load i64, ptr %40, align 8
  %42 = shl nsw i64 %21, 3
  %43 = load i64, ptr %17, align 8
  %44 = mul nsw i64 %42, %43
  %45 = add nsw i64 %44, %41
  %46 = inttoptr i64 %45 to ptr
  %47 = getelementptr i64, ptr %46, i64 %2
  %48 = load i64, ptr %47, align 8
  %49 = load i64, ptr %18, align 8
  %50 = inttoptr i64 %49 to ptr
  %51 = getelementptr i64, ptr %50, i64 %21
  %52 = load i64, ptr %51, align 8
  %53 = icmp eq i64 %52, %10
  br i1 %53, label %23, label %29
}

define i64 @load_shared(i64 %0, i64 %1, i64 %2) {
  %4 = alloca ptr, align 8
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
  %40 = icmp eq i64 %26, 0
  br i1 %40, label %41, label %43

41:
  %42 = add nsw i64 %2, 56
  br label %321

43:
  %44 = add nsw i64 %39, 8
  %45 = inttoptr i64 %44 to ptr
  %46 = load i32, ptr %45, align 4
  %47 = select i1 %31, i64 %26, i64 1
  %48 = zext i32 %46 to i64
  %49 = icmp eq i64 %47, %48
  br i1 %49, label %50, label %321

50:
  %51 = lshr i64 %7, 8
  %52 = and i64 %51, 255
  %53 = lshr i64 %7, 16
  %54 = and i64 %53, 255
  %55 = mul nuw nsw i64 %52, %54
  %56 = getelementptr i8, ptr %5, i64 8
  %57 = getelementptr i8, ptr %5, i64 16
  %58 = and i64 %7, 2
  %59 = icmp eq i64 %58, 0
  %60 = and i64 %7, 128
  %61 = icmp eq i64 %60, 0
  %62 = getelementptr i8, ptr %35, i64 160
  %63 = getelementptr i8, ptr %35, i64 152
  %64 = add nsw i64 %39, 16
  %65 = inttoptr i64 %64 to ptr
  %66 = tail call i64 @llvm.ctpop.i64(i64 %26)
  %67 = icmp ult i64 %66, 2
  %68 = select i1 %31, i1 true, i1 %67
  %69 = add nsw i64 %55, -1
  br label %179

70:
  %71 = lshr i64 %7, 24
  %72 = and i64 %71, 255
  %73 = icmp eq i64 %54, 0
  %74 = trunc i64 %51 to i8
  %75 = and i64 %7, 1
  %76 = icmp ne i64 %75, 0
  %77 = icmp ult i64 %52, 8
  %78 = select i1 %76, i1 %77, i1 false
  %79 = shl nuw nsw i64 %52, 3
  %80 = add nsw i64 %79, -1
  %81 = shl nuw nsw i64 1, %80
  %82 = tail call i64 @llvm.umax.i64(i64 %72, i64 4)
  %83 = shl nuw nsw i64 %82, 5
  %84 = trunc i64 %71 to i8
  %85 = add nsw i64 %39, 144
  %86 = inttoptr i64 %85 to ptr
  %87 = shl i64 %9, 6
  %88 = add nsw i64 %87, 128
  br label %315

89:
  %90 = load i64, ptr %56, align 8
  %91 = add nsw i64 %90, %0
  %92 = load i64, ptr %57, align 8
  %93 = inttoptr i64 %91 to ptr
  br i1 %59, label %98, label %94

94:
  %95 = getelementptr i64, ptr %93, i64 %181
  %96 = load i64, ptr %95, align 8
  %97 = add nsw i64 %96, %92
  br label %104

98:
  %99 = getelementptr i32, ptr %93, i64 %181
  %100 = load i32, ptr %99, align 4
  %101 = trunc i64 %92 to i32
  %102 = add i32 %100, %101
  %103 = zext i32 %102 to i64
  br label %104

104:
  %105 = phi i64 [ %103, %98 ], [ %97, %94 ]
  %106 = icmp slt i64 %180, 0
  %107 = select i1 %106, i64 %105, i64 %180
  br i1 %61, label %116, label %108

108:
  %109 = ashr i64 %105, 24
  %110 = load i64, ptr %62, align 8
  %111 = icmp slt i64 %109, %110
  br i1 %111, label %112, label %321

112:
  %113 = load i64, ptr %63, align 8
  %114 = shl nsw i64 %109, 8
  %115 = add nsw i64 %113, %114
  br label %116

116:
  %117 = phi i64 [ %29, %104 ], [ %115, %112 ]
  %118 = icmp eq i64 %117, 0
  br i1 %118, label %321, label %119

119:
  %120 = sub nsw i64 %105, %107
  %121 = getelementptr i32, ptr %65, i64 %181
  %122 = load i32, ptr %121, align 4
  %123 = trunc i64 %120 to i32
  %124 = icmp eq i32 %122, %123
  br i1 %124, label %125, label %321

125:
  %126 = inttoptr i64 %117 to ptr
  %127 = getelementptr i8, ptr %126, i64 24
  %128 = load i64, ptr %127, align 8
  %129 = sub nsw i64 %105, %128
  %130 = select i1 %68, i64 %181, i64 32
  %131 = icmp sgt i64 %129, -1
  br i1 %131, label %132, label %321

132:
  %133 = getelementptr i8, ptr %126, i64 32
  %134 = load i64, ptr %133, align 8
  %135 = icmp slt i64 %129, %134
  %136 = and i64 %129, %69
  %137 = icmp eq i64 %136, 0
  %138 = select i1 %135, i1 %137, i1 false
  br i1 %138, label %139, label %321

139:
  %140 = lshr i64 %129, 2
  %141 = add nuw nsw i64 %129, %55
  %142 = lshr i64 %141, 2
  %143 = sub nsw i64 %142, %140
  %144 = tail call i64 @llvm.smax.i64(i64 %143, i64 0)
  %145 = getelementptr i8, ptr %126, i64 48
  %146 = getelementptr i8, ptr %126, i64 136
  %147 = getelementptr i8, ptr %126, i64 120
  br label %148

148:
  %149 = phi i64 [ %144, %139 ], [ %153, %152 ]
  %150 = phi i64 [ %140, %139 ], [ %154, %152 ]
  %151 = icmp sgt i64 %149, 0
  br i1 %151, label %152, label %176

152:
  %153 = add nsw i64 %149, -1
  %154 = add nuw nsw i64 %150, 1
  %155 = load i64, ptr %145, align 8
  %156 = inttoptr i64 %155 to ptr
  %157 = getelementptr i64, ptr %156, i64 %150
  %158 = load i64, ptr %157, align 8
  %159 = lshr i64 %158, 24
  %160 = and i64 %159, 4095
  %161 = load i64, ptr %146, align 8
  %162 = and i64 %158, 63
  %163 = icmp ne i64 %162, %130
  %164 = icmp ne i64 %162, 32
  %165 = and i1 %163, %164
  %166 = icmp eq i64 %160, %161
  %167 = select i1 %166, i1 %165, i1 false
  %168 = zext i1 %167 to i64
  %169 = load i64, ptr %147, align 8
  %170 = inttoptr i64 %169 to ptr
  %171 = getelementptr i64, ptr %170, i64 %160
  %172 = getelementptr i64, ptr %171, i64 %168
  %173 = load i64, ptr %172, align 8
  %174 = ashr i64 %158, 36
  %175 = icmp slt i64 %173, %174
  br i1 %175, label %321, label %148

176:
  %177 = phi i64 [ %180, %179 ], [ %107, %148 ]
  %178 = icmp eq i64 %182, 32
  br i1 %178, label %70, label %179

179:
  %180 = phi i64 [ -1, %50 ], [ %177, %176 ]
  %181 = phi i64 [ 0, %50 ], [ %182, %176 ]
  %182 = add nuw nsw i64 %181, 1
  %183 = shl nuw i64 1, %181
  %184 = and i64 %183, %34
  %185 = icmp eq i64 %184, 0
  br i1 %185, label %176, label %89

186:
  %187 = load i64, ptr %56, align 8
  %188 = add nsw i64 %187, %0
  %189 = load i64, ptr %57, align 8
  %190 = inttoptr i64 %188 to ptr
  br i1 %59, label %195, label %191

191:
  %192 = getelementptr i64, ptr %190, i64 %316
  %193 = load i64, ptr %192, align 8
  %194 = add nsw i64 %193, %189
  br label %201

195:
  %196 = getelementptr i32, ptr %190, i64 %316
  %197 = load i32, ptr %196, align 4
  %198 = trunc i64 %189 to i32
  %199 = add i32 %197, %198
  %200 = zext i32 %199 to i64
  br label %201

201:
  %202 = phi i64 [ %200, %195 ], [ %194, %191 ]
  br i1 %61, label %211, label %203

203:
  %204 = ashr i64 %202, 24
  %205 = load i64, ptr %62, align 8
  %206 = icmp slt i64 %204, %205
  br i1 %206, label %207, label %211

207:
  %208 = load i64, ptr %63, align 8
  %209 = shl nsw i64 %204, 8
  %210 = add nsw i64 %208, %209
  br label %211

211:
  %212 = phi i64 [ %29, %201 ], [ %210, %207 ], [ 0, %203 ]
  %213 = inttoptr i64 %212 to ptr
  %214 = getelementptr i8, ptr %213, i64 24
  %215 = load i64, ptr %214, align 8
  %216 = sub nsw i64 %202, %215
  %217 = getelementptr i8, ptr %213, i64 40
  %218 = load i64, ptr %217, align 8
  %219 = add nsw i64 %218, %216
  br i1 %73, label %288, label %220

220:
  %221 = mul nuw nsw i64 %316, %72
  %222 = add i64 %221, %0
  br label %261

223:
  %224 = xor i64 %281, %81
  %225 = sub nsw i64 %224, %81
  br label %226

226:
  %227 = phi i64 [ %225, %223 ], [ %281, %280 ], [ %271, %270 ]
  br i1 %31, label %246, label %228

228:
  %229 = mul nuw nsw i64 %83, %262
  %230 = add i64 %229, %0
  %231 = trunc i64 %227 to i16
  %232 = trunc i64 %227 to i32
  %233 = trunc i64 %227 to i8
  br label %282

234:
  %235 = load i64, ptr %5, align 8
  %236 = mul nuw nsw i64 %283, %72
  %237 = add i64 %230, %236
  %238 = add i64 %237, %235
  %239 = inttoptr i64 %238 to ptr
  switch i8 %84, label %243 [
    i8 4, label %240
    i8 8, label %241
    i8 2, label %242
  ]

240:
  store i32 %232, ptr %239, align 4
  br label %244

241:
  store i64 %227, ptr %239, align 8
  br label %244

242:
  store i16 %231, ptr %239, align 2
  br label %244

243:
  store i8 %233, ptr %239, align 1
  br label %244

244:
  %245 = icmp eq i64 %284, 32
  br i1 %245, label %259, label %282

246:
  %247 = load i64, ptr %5, align 8
  %248 = mul nuw nsw i64 %83, %262
  %249 = add i64 %222, %248
  %250 = add i64 %249, %247
  %251 = inttoptr i64 %250 to ptr
  switch i8 %84, label %257 [
    i8 4, label %252
    i8 8, label %254
    i8 2, label %255
  ]

252:
  %253 = trunc i64 %227 to i32
  store i32 %253, ptr %251, align 4
  br label %259

254:
  store i64 %227, ptr %251, align 8
  br label %259

255:
  %256 = trunc i64 %227 to i16
  store i16 %256, ptr %251, align 2
  br label %259

257:
  %258 = trunc i64 %227 to i8
  store i8 %258, ptr %251, align 1
  br label %259

259:
  %260 = icmp eq i64 %263, %54
  br i1 %260, label %288, label %261

261:
  %262 = phi i64 [ 0, %220 ], [ %263, %259 ]
  %263 = add nuw nsw i64 %262, 1
  %264 = mul nuw nsw i64 %262, %52
  %265 = add nsw i64 %219, %264
  %266 = inttoptr i64 %265 to ptr
  switch i8 %74, label %274 [
    i8 4, label %267
    i8 8, label %270
    i8 2, label %272
  ]

267:
  %268 = load i32, ptr %266, align 4
  %269 = zext i32 %268 to i64
  br label %280

270:
  %271 = load i64, ptr %266, align 8
  br label %226

272:
  %273 = load i16, ptr %266, align 2
  br label %277

274:
  %275 = load i8, ptr %266, align 1
  %276 = zext i8 %275 to i16
  br label %277

277:
  %278 = phi i16 [ %273, %272 ], [ %276, %274 ]
  %279 = zext i16 %278 to i64
  br label %280

280:
  %281 = phi i64 [ %279, %277 ], [ %269, %267 ]
  br i1 %78, label %223, label %226

282:
  %283 = phi i64 [ 0, %228 ], [ %284, %244 ]
  %284 = add nuw nsw i64 %283, 1
  %285 = shl nuw i64 1, %283
  %286 = and i64 %285, %26
  %287 = icmp eq i64 %286, 0
  br i1 %287, label %244, label %234

288:
  br i1 %31, label %291, label %289

289:
  %290 = select i1 %67, i64 %316, i64 32
  br label %295

291:
  %292 = getelementptr i32, ptr %86, i64 %316
  %293 = load i32, ptr %292, align 4
  %294 = zext i32 %293 to i64
  br label %295

295:
  %296 = phi i64 [ %290, %289 ], [ %294, %291 ]
  %297 = getelementptr i8, ptr %213, i64 136
  %298 = load i64, ptr %297, align 8
  %299 = getelementptr i8, ptr %213, i64 120
  %300 = load i64, ptr %299, align 8
  %301 = inttoptr i64 %300 to ptr
  %302 = getelementptr i64, ptr %301, i64 %298
  %303 = load i64, ptr %302, align 8
  %304 = shl i64 %303, 36
  %305 = shl i64 %298, 24
  %306 = or i64 %305, %88
  %307 = or i64 %306, %304
  call fastcc void @1(ptr %4, i64 %212, i64 %216, i64 %55, i64 %307, i64 %296)
  br label %308

308:
  %309 = icmp eq i64 %317, 32
  br i1 %309, label %310, label %315

310:
  %311 = inttoptr i64 %39 to ptr
  %312 = load i64, ptr %311, align 8
  %313 = add nsw i64 %312, 1
  store i64 %313, ptr %311, align 8
  %314 = add nsw i64 %2, 56
  br label %321

315:
  %316 = phi i64 [ 0, %70 ], [ %317, %308 ]
  %317 = add nuw nsw i64 %316, 1
  %318 = shl nuw i64 1, %316
  %319 = and i64 %318, %34
  %320 = icmp eq i64 %319, 0
  br i1 %320, label %308, label %186

321:
  %322 = phi i64 [ %42, %41 ], [ %314, %310 ], [ 0, %43 ], [ 0, %152 ], [ 0, %116 ], [ 0, %119 ], [ 0, %108 ], [ 0, %132 ], [ 0, %125 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret i64 %322
}

define internal fastcc void @3(ptr noalias nonnull writeonly %0, i64 %1, i64 %2, i64 %3, i64 %4) {
  %6 = ashr i64 %2, 2
  %7 = add nsw i64 %3, %2
  %8 = ashr i64 %7, 2
  %9 = sub nsw i64 %8, %6
  %10 = icmp slt i64 %9, 1
  br i1 %10, label %31, label %11

11:
  %12 = inttoptr i64 %1 to ptr
  %13 = getelementptr i8, ptr %12, i64 64
  %14 = getelementptr i8, ptr %12, i64 96
  %15 = getelementptr i8, ptr %12, i64 56
  %16 = getelementptr i8, ptr %12, i64 104
  %17 = getelementptr i8, ptr %12, i64 48
  br label %32

18:
  %19 = load i64, ptr %14, align 8
  %20 = inttoptr i64 %19 to ptr
  %21 = load i64, ptr %20, align 8
  %22 = icmp slt i64 %21, 1
  br i1 %22, label %23, label %43

23:
  %24 = load i64, ptr %17, align 8
  %25 = inttoptr i64 %24 to ptr
  %26 = getelementptr i64, ptr %25, i64 %33
  store i64 %4, ptr %26, align 8
  %27 = load i64, ptr %13, align 8
  %28 = inttoptr i64 %27 to ptr
  %29 = getelementptr i8, ptr %28, i64 %33
  store i8 1, ptr %29, align 1
  %30 = icmp ugt i64 %34, 1
  br i1 %30, label %32, label %31

31:
  store ptr null, ptr %0, align 8
  ret void

32:
  %33 = phi i64 [ %6, %11 ], [ %36, %23 ]
  %34 = phi i64 [ %9, %11 ], [ %35, %23 ]
  %35 = add nsw i64 %34, -1
  %36 = add nsw i64 %33, 1
  %37 = load i64, ptr %13, align 8
  %38 = inttoptr i64 %37 to ptr
  %39 = getelementptr i8, ptr %38, i64 %33
  %40 = load i8, ptr %39, align 1
  %41 = and i8 %40, 2
  %42 = icmp eq i8 %41, 0
  br i1 %42, label %23, label %18

43:
  %44 = phi i64 [ %45, %43 ], [ 0, %18 ]
  %45 = add nuw nsw i64 %44, 1
  %46 = load i64, ptr %15, align 8
  %47 = inttoptr i64 %46 to ptr
  %48 = load i64, ptr %47, align 8
  %49 = shl nsw i64 %44, 3
  %50 = load i64, ptr %16, align 8
  %51 = mul nsw i64 %49, %50
  %52 = add nsw i64 %51, %48
  %53 = inttoptr i64 %52 to ptr
  %54 = getelementptr i64, ptr %53, i64 %33
  store i64 0, ptr %54, align 8
  %55 = icmp eq i64 %21, %45
  br i1 %55, label %23, label %43
}

define i64 @store_shared(i64 %0, i64 %1, i64 %2) {
  %4 = alloca i8, align 1
  %5 = alloca ptr, align 8
  call void @llvm.lifetime.start.p0(ptr nonnull %5)
  %6 = inttoptr i64 %2 to ptr
  %7 = getelementptr i8, ptr %6, i64 48
  %8 = load i64, ptr %7, align 8
  %9 = getelementptr i8, ptr %6, i64 24
  %10 = load i64, ptr %9, align 8
  %11 = and i64 %8, 8
  %12 = icmp eq i64 %11, 0
  br i1 %12, label %25, label %13

13:
  %14 = getelementptr i8, ptr %6, i64 40
  %15 = load i64, ptr %14, align 8
  %16 = add nsw i64 %15, %0
  %17 = inttoptr i64 %16 to ptr
  %18 = load i32, ptr %17, align 4
  %19 = trunc i64 %8 to i32
  %20 = lshr i32 %19, 4
  %21 = and i32 %20, 1
  %22 = add nsw i32 %21, -1
  %23 = xor i32 %18, %22
  %24 = zext i32 %23 to i64
  br label %25

25:
  %26 = phi i64 [ %24, %13 ], [ 4294967295, %3 ]
  %27 = and i64 %26, %1
  %28 = getelementptr i8, ptr %6, i64 32
  %29 = load i64, ptr %28, align 8
  %30 = add nsw i64 %29, %0
  %31 = and i64 %8, 4
  %32 = icmp eq i64 %31, 0
  %33 = sub nsw i64 0, %27
  %34 = select i1 %32, i64 4294967295, i64 %33
  %35 = and i64 %34, %27
  %36 = inttoptr i64 %30 to ptr
  %37 = getelementptr i8, ptr %36, i64 16
  %38 = load i64, ptr %37, align 8
  %39 = mul nsw i64 %10, 272
  %40 = add nsw i64 %38, %39
  %41 = icmp eq i64 %27, 0
  br i1 %41, label %42, label %44

42:
  %43 = add nsw i64 %2, 56
  br label %334

44:
  %45 = add nsw i64 %40, 8
  %46 = inttoptr i64 %45 to ptr
  %47 = load i32, ptr %46, align 4
  %48 = select i1 %32, i64 %27, i64 1
  %49 = zext i32 %47 to i64
  %50 = icmp eq i64 %48, %49
  br i1 %50, label %51, label %334

51:
  %52 = tail call i64 @llvm.ctpop.i64(i64 %27)
  br i1 %32, label %57, label %53

53:
  %54 = icmp ugt i64 %52, 1
  %55 = icmp ne i64 %27, 4294967295
  %56 = and i1 %55, %54
  br i1 %56, label %334, label %57

57:
  %58 = lshr i64 %8, 8
  %59 = and i64 %58, 255
  %60 = lshr i64 %8, 16
  %61 = and i64 %60, 255
  %62 = mul nuw nsw i64 %59, %61
  %63 = getelementptr i8, ptr %6, i64 8
  %64 = getelementptr i8, ptr %6, i64 16
  %65 = and i64 %8, 2
  %66 = icmp eq i64 %65, 0
  %67 = and i64 %8, 128
  %68 = icmp eq i64 %67, 0
  %69 = getelementptr i8, ptr %36, i64 160
  %70 = getelementptr i8, ptr %36, i64 152
  %71 = add nsw i64 %40, 16
  %72 = inttoptr i64 %71 to ptr
  %73 = icmp ult i64 %52, 2
  %74 = select i1 %32, i1 true, i1 %73
  %75 = add nsw i64 %62, -1
  br label %208

76:
  %77 = load i64, ptr %63, align 8
  %78 = add nsw i64 %77, %0
  %79 = load i64, ptr %64, align 8
  %80 = inttoptr i64 %78 to ptr
  br i1 %66, label %85, label %81

81:
  %82 = getelementptr i64, ptr %80, i64 %210
  %83 = load i64, ptr %82, align 8
  %84 = add nsw i64 %83, %79
  br label %91

85:
  %86 = getelementptr i32, ptr %80, i64 %210
  %87 = load i32, ptr %86, align 4
  %88 = trunc i64 %79 to i32
  %89 = add i32 %87, %88
  %90 = zext i32 %89 to i64
  br label %91

91:
  %92 = phi i64 [ %90, %85 ], [ %84, %81 ]
  %93 = icmp slt i64 %209, 0
  %94 = select i1 %93, i64 %92, i64 %209
  br i1 %68, label %103, label %95

95:
  %96 = ashr i64 %92, 24
  %97 = load i64, ptr %69, align 8
  %98 = icmp slt i64 %96, %97
  br i1 %98, label %99, label %334

99:
  %100 = load i64, ptr %70, align 8
  %101 = shl nsw i64 %96, 8
  %102 = add nsw i64 %100, %101
  br label %103

103:
  %104 = phi i64 [ %30, %91 ], [ %102, %99 ]
  %105 = icmp eq i64 %104, 0
  br i1 %105, label %334, label %106

106:
  %107 = sub nsw i64 %92, %94
  %108 = getelementptr i32, ptr %72, i64 %210
  %109 = load i32, ptr %108, align 4
  %110 = trunc i64 %107 to i32
  %111 = icmp eq i32 %109, %110
  br i1 %111, label %112, label %334

112:
  %113 = inttoptr i64 %104 to ptr
  %114 = getelementptr i8, ptr %113, i64 24
  %115 = load i64, ptr %114, align 8
  %116 = sub nsw i64 %92, %115
  %117 = select i1 %74, i64 %210, i64 32
  %118 = icmp sgt i64 %116, -1
  br i1 %118, label %119, label %334

119:
  %120 = getelementptr i8, ptr %113, i64 32
  %121 = load i64, ptr %120, align 8
  %122 = icmp slt i64 %116, %121
  %123 = and i64 %116, %75
  %124 = icmp eq i64 %123, 0
  %125 = select i1 %122, i1 %124, i1 false
  br i1 %125, label %126, label %334

126:
  call void @llvm.lifetime.start.p0(ptr nonnull %4)
  %127 = lshr i64 %116, 2
  %128 = add nuw nsw i64 %116, %62
  %129 = lshr i64 %128, 2
  %130 = sub nsw i64 %129, %127
  %131 = icmp slt i64 %130, 1
  br i1 %131, label %203, label %132

132:
  %133 = getelementptr i8, ptr %113, i64 48
  %134 = load i64, ptr %133, align 8
  %135 = inttoptr i64 %134 to ptr
  %136 = getelementptr i8, ptr %113, i64 136
  %137 = getelementptr i8, ptr %113, i64 120
  %138 = getelementptr i8, ptr %113, i64 72
  %139 = getelementptr i8, ptr %113, i64 80
  %140 = getelementptr i8, ptr %113, i64 64
  br label %195

141:
  %142 = lshr i64 %201, 24
  %143 = and i64 %142, 4095
  %144 = load i64, ptr %136, align 8
  %145 = and i64 %201, 63
  %146 = icmp ne i64 %145, %117
  %147 = icmp eq i64 %143, %144
  %148 = select i1 %147, i1 %146, i1 false
  %149 = zext i1 %148 to i64
  %150 = load i64, ptr %137, align 8
  %151 = inttoptr i64 %150 to ptr
  %152 = getelementptr i64, ptr %151, i64 %143
  %153 = getelementptr i64, ptr %152, i64 %149
  %154 = load i64, ptr %153, align 8
  %155 = ashr i64 %201, 36
  %156 = icmp slt i64 %154, %155
  br i1 %156, label %204, label %157

157:
  %158 = load i64, ptr %138, align 8
  %159 = inttoptr i64 %158 to ptr
  %160 = getelementptr i32, ptr %159, i64 %196
  %161 = load i32, ptr %160, align 4
  %162 = icmp eq i32 %161, 0
  br i1 %162, label %183, label %163

163:
  %164 = sext i32 %161 to i64
  %165 = load i64, ptr %139, align 8
  %166 = inttoptr i64 %165 to ptr
  %167 = load i64, ptr %166, align 8
  %168 = inttoptr i64 %167 to ptr
  %169 = getelementptr i64, ptr %168, i64 %164
  %170 = load i64, ptr %169, align 8
  %171 = lshr i64 %170, 24
  %172 = and i64 %171, 4095
  %173 = load i64, ptr %136, align 8
  %174 = icmp eq i64 %172, %173
  %175 = zext i1 %174 to i64
  %176 = load i64, ptr %137, align 8
  %177 = inttoptr i64 %176 to ptr
  %178 = getelementptr i64, ptr %177, i64 %172
  %179 = getelementptr i64, ptr %178, i64 %175
  %180 = load i64, ptr %179, align 8
  %181 = ashr i64 %170, 36
  %182 = icmp slt i64 %180, %181
  br i1 %182, label %204, label %183

183:
  %184 = load i64, ptr %140, align 8
  %185 = inttoptr i64 %184 to ptr
  %186 = getelementptr i8, ptr %185, i64 %196
  %187 = load i8, ptr %186, align 1
  %188 = and i8 %187, 2
  %189 = icmp eq i8 %188, 0
  br i1 %189, label %193, label %190

190:
  store i8 0, ptr %4, align 1
  call fastcc void @2(ptr %4, i64 %104, i64 %196, i64 %117)
  %191 = load i8, ptr %4, align 1
  %192 = icmp eq i8 %191, 0
  br i1 %192, label %204, label %193

193:
  %194 = icmp ugt i64 %197, 1
  br i1 %194, label %195, label %203

195:
  %196 = phi i64 [ %127, %132 ], [ %199, %193 ]
  %197 = phi i64 [ %130, %132 ], [ %198, %193 ]
  %198 = add nsw i64 %197, -1
  %199 = add nuw nsw i64 %196, 1
  %200 = getelementptr i64, ptr %135, i64 %196
  %201 = load i64, ptr %200, align 8
  %202 = icmp eq i64 %201, 9223371968135299073
  br i1 %202, label %157, label %141

203:
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  br label %205

204:
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  br label %334

205:
  %206 = phi i64 [ %94, %203 ], [ %209, %208 ]
  %207 = icmp eq i64 %211, 32
  br i1 %207, label %215, label %208

208:
  %209 = phi i64 [ -1, %57 ], [ %206, %205 ]
  %210 = phi i64 [ 0, %57 ], [ %211, %205 ]
  %211 = add nuw nsw i64 %210, 1
  %212 = shl nuw i64 1, %210
  %213 = and i64 %212, %35
  %214 = icmp eq i64 %213, 0
  br i1 %214, label %205, label %76

215:
  %216 = getelementptr i8, ptr %36, i64 112
  %217 = load i64, ptr %216, align 8
  %218 = inttoptr i64 %217 to ptr
  %219 = getelementptr i32, ptr %218, i64 %10
  %220 = load i32, ptr %219, align 4
  %221 = trunc nuw i64 %27 to i32
  %222 = or i32 %220, %221
  store i32 %222, ptr %219, align 4
  %223 = icmp eq i64 %61, 0
  %224 = and i64 %8, 32
  %225 = icmp eq i64 %224, 0
  %226 = lshr i64 %8, 24
  %227 = and i64 %226, 255
  %228 = tail call i64 @llvm.umax.i64(i64 %227, i64 4)
  %229 = shl nuw nsw i64 %228, 5
  %230 = trunc i64 %226 to i8
  %231 = trunc i64 %58 to i8
  %232 = shl i64 %10, 6
  %233 = add nsw i64 %232, 128
  br label %328

234:
  %235 = load i64, ptr %63, align 8
  %236 = add nsw i64 %235, %0
  %237 = load i64, ptr %64, align 8
  %238 = inttoptr i64 %236 to ptr
  br i1 %66, label %243, label %239

239:
  %240 = getelementptr i64, ptr %238, i64 %329
  %241 = load i64, ptr %240, align 8
  %242 = add nsw i64 %241, %237
  br label %249

243:
  %244 = getelementptr i32, ptr %238, i64 %329
  %245 = load i32, ptr %244, align 4
  %246 = trunc i64 %237 to i32
  %247 = add i32 %245, %246
  %248 = zext i32 %247 to i64
  br label %249

249:
  %250 = phi i64 [ %248, %243 ], [ %242, %239 ]
  br i1 %68, label %259, label %251

251:
  %252 = ashr i64 %250, 24
  %253 = load i64, ptr %69, align 8
  %254 = icmp slt i64 %252, %253
  br i1 %254, label %255, label %259

255:
  %256 = load i64, ptr %70, align 8
  %257 = shl nsw i64 %252, 8
  %258 = add nsw i64 %256, %257
  br label %259

259:
  %260 = phi i64 [ %30, %249 ], [ %258, %255 ], [ 0, %251 ]
  %261 = inttoptr i64 %260 to ptr
  %262 = getelementptr i8, ptr %261, i64 24
  %263 = load i64, ptr %262, align 8
  %264 = sub nsw i64 %250, %263
  %265 = getelementptr i8, ptr %261, i64 40
  %266 = load i64, ptr %265, align 8
  %267 = add nsw i64 %266, %264
  br i1 %223, label %307, label %268

268:
  %269 = mul nuw nsw i64 %329, %227
  %270 = add i64 %269, %0
  br label %271

271:
  %272 = phi i64 [ 0, %268 ], [ %273, %305 ]
  %273 = add nuw nsw i64 %272, 1
  %274 = load i64, ptr %6, align 8
  br i1 %225, label %275, label %293

275:
  %276 = mul nuw nsw i64 %229, %272
  %277 = add i64 %270, %276
  %278 = add i64 %277, %274
  %279 = inttoptr i64 %278 to ptr
  switch i8 %230, label %287 [
    i8 4, label %280
    i8 8, label %283
    i8 2, label %285
  ]

280:
  %281 = load i32, ptr %279, align 4
  %282 = zext i32 %281 to i64
  br label %293

283:
  %284 = load i64, ptr %279, align 8
  br label %293

285:
  %286 = load i16, ptr %279, align 2
  br label %290

287:
  %288 = load i8, ptr %279, align 1
  %289 = zext i8 %288 to i16
  br label %290

290:
  %291 = phi i16 [ %286, %285 ], [ %289, %287 ]
  %292 = zext i16 %291 to i64
  br label %293

293:
  %294 = phi i64 [ %284, %283 ], [ %292, %290 ], [ %282, %280 ], [ %274, %271 ]
  %295 = mul nuw nsw i64 %272, %59
  %296 = add nsw i64 %267, %295
  %297 = inttoptr i64 %296 to ptr
  switch i8 %231, label %303 [
    i8 4, label %298
    i8 8, label %300
    i8 2, label %301
  ]

298:
  %299 = trunc i64 %294 to i32
  store i32 %299, ptr %297, align 4
  br label %305

300:
  store i64 %294, ptr %297, align 8
  br label %305

301:
  %302 = trunc i64 %294 to i16
  store i16 %302, ptr %297, align 2
  br label %305

303:
  %304 = trunc i64 %294 to i8
  store i8 %304, ptr %297, align 1
  br label %305

305:
  %306 = icmp eq i64 %273, %61
  br i1 %306, label %307, label %271

307:
  %308 = getelementptr i8, ptr %261, i64 136
  %309 = load i64, ptr %308, align 8
  %310 = getelementptr i8, ptr %261, i64 120
  %311 = load i64, ptr %310, align 8
  %312 = inttoptr i64 %311 to ptr
  %313 = getelementptr i64, ptr %312, i64 %309
  %314 = load i64, ptr %313, align 8
  %315 = shl i64 %314, 36
  %316 = shl i64 %309, 24
  %317 = select i1 %74, i64 %329, i64 32
  %318 = or i64 %317, %233
  %319 = or i64 %318, %316
  %320 = or i64 %319, %315
  call fastcc void @3(ptr %5, i64 %260, i64 %264, i64 %62, i64 %320)
  br label %321

321:
  %322 = icmp eq i64 %330, 32
  br i1 %322, label %323, label %328

323:
  %324 = inttoptr i64 %40 to ptr
  %325 = load i64, ptr %324, align 8
  %326 = add nsw i64 %325, 1
  store i64 %326, ptr %324, align 8
  %327 = add nsw i64 %2, 56
  br label %334

328:
  %329 = phi i64 [ 0, %215 ], [ %330, %321 ]
  %330 = add nuw nsw i64 %329, 1
  %331 = shl nuw i64 1, %329
  %332 = and i64 %331, %35
  %333 = icmp eq i64 %332, 0
  br i1 %333, label %321, label %234

334:
  %335 = phi i64 [ %43, %42 ], [ %327, %323 ], [ 0, %53 ], [ 0, %44 ], [ 0, %204 ], [ 0, %103 ], [ 0, %106 ], [ 0, %95 ], [ 0, %119 ], [ 0, %112 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %5)
  ret i64 %335
}

declare i64 @llvm.ctpop.i64(i64)

declare i64 @llvm.umax.i64(i64, i64)

declare void @llvm.lifetime.start.p0(ptr)

declare void @llvm.lifetime.end.p0(ptr)

declare i64 @llvm.smax.i64(i64, i64)


