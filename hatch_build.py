"""The build hook: compile the native library and put it into the wheel.

Hatchling is the build backend already, and one compile command needs no build system. scikit-build-core and
meson-python would fail the installation where there is no compiler; here it succeeds, without the library.
"""

import importlib.util
import os
import platform
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Set to 1, it makes a failed compilation an error: a release needs the library.
REQUIRED = "COLANGEVIN_NATIVE_REQUIRED"


class NativeHook(BuildHookInterface):
    """Compiles the library in the source tree, where an editable installation finds it too."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiling = _compile_module(Path(self.root))
        try:
            path = compiling.compile_library()
        except compiling.CompileError as error:
            if os.environ.get(REQUIRED) == "1":
                raise
            self.app.display_warning(f"colangevin is installed without its native library: {error}")
            return
        self.app.display_info(f"Compiled {path}")
        # git ignores the file; as an artifact it goes into the wheel all the same
        build_data["artifacts"].append(path.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"


def _compile_module(root: Path) -> ModuleType:
    """``colangevin/native/compile.py`` without the package around it, which needs torch."""
    path = root / "src" / "colangevin" / "native" / "compile.py"
    spec = importlib.util.spec_from_file_location("compile_native", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _platform() -> str:
    """The tag of this platform. A Python for both kinds of Mac still compiles for one."""
    tag = sysconfig.get_platform().replace("universal2", platform.machine())
    return tag.replace("-", "_").replace(".", "_")
