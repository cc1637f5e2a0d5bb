"""stubs.py FOLDER OUT: the typed stubs of the extension in FOLDER, by nanobind."""
import sys, types

folder, out = sys.argv[1:]
sys.path.insert(0, folder)
import _tenon
from nanobind.stubgen import StubGen

sys.modules["tenon"] = types.ModuleType("tenon")
sys.modules["tenon._tenon"] = _tenon
stub = StubGen(module=_tenon)
stub.put(_tenon)
with open(out, "w") as f:
    f.write(stub.get())
