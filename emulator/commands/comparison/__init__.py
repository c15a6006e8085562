"""The predicted difference of two versions of a program: two commits, or two scripts."""
