"""Checks the includes of lib/ against the table of rooms in README.md.

Checks three rules from the columns of the table, and two more:
  direction   A room may include itself, base, and the rooms in the column "may include", which must stand above it.
  heavy       A room may include headers of torch, MPI, CUDA and NCCL only if the last column names them. "X in `y`"
              allows X in the folder y/ and in files whose name without its ending is y.
  reach       A room whose last column is "none" may not get such a header through a header of lib/ either, even if that
              one may include it.
  cycles      The modules of a room may not include each other in a circle. A module is x.h with x.cpp, and with x_gpu.h and
              x_gpu.cpp, the forms of the same functions on a GPU.
  names       Only the rooms of the model (architecture, model, ops, moe) may name a segment, an exchange or a parameter
              of a block, a value, a block or a family. The others go by what a step says of itself.

Prints file:line and the rule for each offence. Exit code 0: no offence, 1: some, 2: no table, or wrong arguments.
"""

import argparse
import pathlib
import re
import sys

ROW = re.compile(r"^\| `([a-z_]+)` \| ([^|]*) \| [^|]* \| ([^|]*) \|$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
HEAVY = {
    "torch": re.compile(r"^(torch|ATen|c10|caffe2)/"),
    "MPI": re.compile(r"^mpi(_[a-z_]+)?\.h$"),
    "CUDA": re.compile(r"^(cuda|cublas|cudnn|cusolver|cusparse|curand|cufile|cupti|nvToolsExt|driver_types|thrust/|cub/"
                       r"|nvtx3/|cooperative_groups|(ATen|c10|torch)/cuda/|ATen/cudnn/)"),
    "NCCL": re.compile(r"^nccl"),
}
MODEL_ROOMS = {"architecture", "model", "ops", "moe"}
MODEL_NAME = re.compile(r"\bValueKind::[a-z]\w*|\barchitecture::(embedding|attention|dense_mlp|router|experts|head)::\w+"
                        r"|\"architecture/(blocks|families)/[a-z0-9_]+\.h\"")
SUFFIXES = {".h", ".hpp", ".cpp", ".cu", ".cuh", ".inc"}


class Room:
    def __init__(self, name, may_include, heavy, above):
        self.name = name
        self.pure = heavy.strip() == "none"
        self.may_include = set(above) if may_include == "all above" else set(re.findall(r"[a-z_]+", may_include))
        self.heavy = {}  # kind -> None (anywhere), or the names of folders and files
        for part in [] if self.pure else heavy.split(";"):
            kinds, _, places = part.partition(" in ")
            for kind in (kind.strip() for kind in kinds.split(",")):
                if kind not in HEAVY:
                    raise ValueError(f"{name}: unknown kind of header '{kind}' in the last column; one of {', '.join(HEAVY)}")
                self.heavy[kind] = set(re.findall(r"`([^`]+?)/?`", places)) or None

    def allows(self, kind, path):
        """Returns whether the file (path relative to the room) may include a header of this kind."""
        if kind not in self.heavy:
            return False
        places = self.heavy[kind]
        return places is None or path.stem in places or bool(places & set(path.parts[:-1]))

    def heavy_text(self):
        texts = [kind + (f" in {', '.join(sorted(places))}" if places else "") for kind, places in self.heavy.items()]
        return "; ".join(texts) or "none"


def read_rooms(readme):
    rooms = {}
    for line in readme.read_text(encoding="utf-8").splitlines():
        if match := ROW.match(line):
            room = Room(match[1], match[2], match[3], rooms)
            if below := room.may_include - set(rooms):
                raise ValueError(f"{room.name} may include {', '.join(sorted(below))}, which does not stand above it")
            rooms[room.name] = room
    if not rooms:
        raise ValueError("no rows such as | `base` | - | ... | none |")
    return rooms


def read_includes(path):
    """Returns (line number, header, whether it is in quotes) for each include."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return [(number, match[2], match[1] == '"') for number, line in enumerate(text.splitlines(), 1)
            if (match := INCLUDE.match(line))]


def heavy_kinds(header):
    return [kind for kind, pattern in HEAVY.items() if pattern.match(header)]


def read_model_names(path):
    """(line number, name) of each value, block, family, and part of a block that a file names."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return [(number, match[0]) for number, line in enumerate(text.splitlines(), 1)
            for match in MODEL_NAME.finditer(line.split("//")[0])]


def module_of(file):
    """x of x.h, x.cpp, x.cu, x_gpu.h and x_gpu.cpp."""
    return file.with_name(file.stem.removesuffix("_gpu"))


class Check:
    def __init__(self, root):
        self.lib = root / "lib"
        self.rooms = read_rooms(root / "README.md")
        files = sorted(path.relative_to(self.lib) for path in self.lib.rglob("*") if path.suffix in SUFFIXES)
        self.includes = {file: read_includes(self.lib / file) for file in files}
        self.offences = []

    def offend(self, file, line, text):
        self.offences.append(f"lib/{file}:{line}: {text}")

    def check_direction(self, file, room, line, header, quoted):
        first = header.split("/")[0]
        if first in self.rooms and "/" in header:
            if first not in room.may_include | {room.name, "base"}:
                allowed = ", ".join(sorted(room.may_include | {"base"}))
                self.offend(file, line, f'{room.name} may not include "{header}" (direction: only {allowed})')
        elif quoted and not heavy_kinds(header):
            self.offend(file, line, f'"{header}" names no room (direction: write "room/file.h"; <...> for other libraries)')

    def check_heavy(self, file, room, line, header):
        for kind in heavy_kinds(header):
            if not room.allows(kind, file.relative_to(room.name)):
                self.offend(file, line, f"{room.name} may not include <{header}> of {kind} (heavy: {room.heavy_text()})")

    def allowed_heavy(self, file):
        """Returns the first heavy header that this file includes and may include, or None. check_heavy reports others."""
        room = self.rooms.get(file.parts[0])
        for _, header, _ in self.includes[file]:
            if room and any(room.allows(kind, file.relative_to(room.name)) for kind in heavy_kinds(header)):
                return header
        return None

    def check_reach(self, file, room, line, header):
        """Searches the headers of lib/ that one include of a pure room reaches, and reports the first heavy header."""
        seen, chains = set(), [[pathlib.Path(header)]]
        while chains:
            chain = chains.pop()
            if chain[-1] in seen or chain[-1] not in self.includes:
                continue
            seen.add(chain[-1])
            if heavy := self.allowed_heavy(chain[-1]):
                way = " -> ".join(str(step) for step in chain)
                self.offend(file, line, f"{room.name} gets <{heavy}> through {way} (reach: {room.name} is 'none')")
                return
            chains += [[*chain, pathlib.Path(inner)] for _, inner, _ in self.includes[chain[-1]]]

    def check_cycles(self):
        """Reports each circle of modules of one room once, by the files whose includes close it."""
        includes = {}  # module -> {included module of the same room: (file, line)}
        for file, lines in self.includes.items():
            for line, header, quoted in lines:
                other = pathlib.Path(header)
                if quoted and other in self.includes and other.parts[0] == file.parts[0] and module_of(other) != module_of(file):
                    includes.setdefault(module_of(file), {}).setdefault(module_of(other), (file, line))
        reported = set()
        for start in sorted(includes):
            way, seen = [[start]], {start}
            while way:
                path = way.pop(0)
                for other in includes.get(path[-1], {}):
                    if other == start and not reported & set(path):
                        reported |= set(path)
                        file, line = includes[path[-1]][start]
                        self.offend(file, line, f"these include each other in a circle: {', '.join(map(str, path))} (cycles)")
                    elif other not in seen:
                        seen.add(other)
                        way.append([*path, other])

    def run(self):
        self.check_cycles()
        for file, includes in self.includes.items():
            room = self.rooms.get(file.parts[0])
            if room is None:
                self.offend(file, 1, f"lib/{file.parts[0]} is not in the table of README.md")
                continue
            for line, header, quoted in includes:
                self.check_direction(file, room, line, header, quoted)
                self.check_heavy(file, room, line, header)
                if room.pure:
                    self.check_reach(file, room, line, header)
            if room.name not in MODEL_ROOMS:
                for line, name in read_model_names(self.lib / file):
                    self.offend(file, line, f"{room.name} names {name} (names: only {', '.join(sorted(MODEL_ROOMS))} may)")
        return self.offences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: this one)")
    root = parser.parse_args().root
    try:
        check = Check(root)
    except (OSError, ValueError) as error:
        print(f"check_includes: table of rooms in {root}/README.md: {error}", file=sys.stderr)
        sys.exit(2)
    offences = check.run()
    print(*offences, sep="\n", end="\n" if offences else "")
    print(f"check_includes: {len(check.includes)} files, {len(check.rooms)} rooms, offences: {len(offences)}")
    sys.exit(1 if offences else 0)


if __name__ == "__main__":
    main()
