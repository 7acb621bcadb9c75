"""The operators that fusions put in place of several: plain PyTorch on a CPU, Triton on a GPU.

Each has a schema, a fake, a reference (the unfused operators themselves) and a kernel. Importing a
module here registers its operators; Triton is imported when a kernel first runs.
"""
