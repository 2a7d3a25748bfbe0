"""Adam on the device: what its kernels share, and the elementwise one.

Memory moved: 7 words a free weight or one on a sphere without slack, as by ``torch.optim.AdamW``; 8 a circle
weight, 9 with slack.
"""
