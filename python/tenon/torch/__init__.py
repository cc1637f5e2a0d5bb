"""tenon for torch: ``torch.compile(model, backend="tenon")``, and ``tenon.torch.from_torch(module, args)``.

The backend serves inference and training, sizes that vary from one compile, and reads parameters where torch has them. What tenon has no operator for
runs in torch, and a warning says what and what it costs. Options: see `backend`.
"""
from .backend import InTorch, backend, from_torch, refresh, report, stats
from .export import to_program

__all__ = ["InTorch", "backend", "from_torch", "refresh", "report", "stats", "to_program"]
