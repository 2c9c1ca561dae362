"""The long runs of `make deep`: saboteurs, storms of races and fuzzing with many examples."""
