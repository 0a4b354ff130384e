"""Everything that an object holds, to search for what should not be held."""

import gc
from types import BuiltinFunctionType, FunctionType, ModuleType


def reachable_objects(root):
    """Return all that an object holds, closures, frames and tracebacks too; classes, modules and globals apart."""
    seen, ahead = {}, [root]
    while ahead:
        one = ahead.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | BuiltinFunctionType):
            continue
        seen[id(one)] = one
        if isinstance(one, FunctionType):
            ahead += [one.__closure__, one.__defaults__, one.__dict__]
        elif isinstance(one, dict):
            ahead += [*one, *one.values()]  # the collector passes by keys that are all strings
        elif hasattr(one, "f_locals") and hasattr(one, "f_globals"):
            ahead.append(one.f_locals)
        else:
            ahead += gc.get_referents(one)
    return list(seen.values())
