"""Pure computation as machine code: LLVM IR over vectors of 32 lanes, compiled in memory by llvmlite."""
