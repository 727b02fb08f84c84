"""Check mode's guard zones around local variables that are reached through pointers, by edits of the kernel's text.

An index into an array by its name is checked by the compiler (`-fsanitize=bounds-strict`). An array that is passed on, or
a variable whose address is taken, lies between two zones of bytes that the checker knows; lines keep their number.
"""

import re
from collections.abc import Iterator

from cuda_harness.tools.execute.cpu.edits import Edit, Node, applied, nodes, text_of
from cuda_harness.tools.toolchain.source import parse_tree

_UNGUARDED = re.compile(
    r"\b(static|extern|constexpr|thread_local|typedef|__shared__|__constant__|auto|struct|class|union|enum)\b|[&*{]"
)
"""What a type as written may not hold."""
_ALIGNAS = re.compile(r"\balignas\s*\(\s*(\d+)\s*\)")


def guard_locals(source: str) -> str:
    """Return `source` with guard zones around the local variables that are reached through pointers.

    Args:
        source: Text without comments and spliced lines, as `source.as_read` gives it.
    """
    data = source.encode("utf-8", "replace")
    root = parse_tree(data)
    members = _array_members(root, data)
    edits: list[Edit] = []
    for function in nodes(root, {"function_definition"}):
        body = function.child_by_field_name("body")
        head = data[function.start_byte : body.start_byte] if body is not None else b""
        # A constant function may have no such variable, and no jump may pass one.
        if body is None or b"constexpr" in head or any(True for _ in nodes(body, {"goto_statement"})):
            continue
        for declaration in nodes(body, {"declaration"}):
            edits += _guarded(declaration, members, data)
    return applied(data, edits)


def _guarded(declaration: Node, members: dict[str, int], data: bytes) -> Iterator[Edit]:
    """Yield the edit that gives each declarator of a declaration a statement of its own, with zones where it needs them."""
    scope = declaration.parent
    if scope is None or scope.type != "compound_statement" or (scope.parent is not None and scope.parent.type == "switch_statement"):  # fmt: skip
        return
    declarators = declaration.children_by_field_name("declarator")
    if not declarators:
        return
    written = data[declaration.start_byte : declarators[0].start_byte].decode("utf-8", "replace")
    kind = _ALIGNAS.sub(r"__attribute__((aligned(\1)))", " ".join(written.split()))
    # `__align__(16)` reads as a statement of its own to the grammar; what stands before it belongs to the type too.
    before = re.split(rb"[;{}]", data[: declaration.start_byte])[-1].decode("utf-8", "replace")
    if _UNGUARDED.search(before + kind) or "alignas" in kind:
        return
    statements, any_guarded = [], False
    for declarator in declarators:
        made = _with_zones(declarator, kind, scope, members, data)
        any_guarded |= made is not None
        statements.append(made or f"{kind} {text_of(declarator, data)};")
    if any_guarded:
        text = " ".join(statements)
        lines = data.count(b"\n", declaration.start_byte, declaration.end_byte) - text.count("\n")
        yield Edit(declaration.start_byte, 0, declaration.end_byte, text + "\n" * lines)


def _with_zones(declarator: Node, kind: str, scope: Node, members: dict[str, int], data: bytes) -> str | None:
    """Return the statements that declare a variable between zones; `None`: it needs none, or its form is not known."""
    declared, value = declarator, None
    if declarator.type == "init_declarator":
        declared, value = (
            declarator.child_by_field_name("declarator"),
            declarator.child_by_field_name("value"),
        )
    name = next(nodes(declared, {"identifier"}), None)
    if name is None or (value is not None and value.type == "argument_list"):
        return None
    rank, inner = 0, name
    while inner.parent is not None and inner.parent.type == "array_declarator" and inner != declared:
        inner = inner.parent
        rank += 1
    if (rank == 0 and declared.type != "identifier") or any(True for _ in nodes(declared, {"reference_declarator", "function_declarator"})):  # fmt: skip
        return None
    word = text_of(name, data)
    if not _reached_through_pointers(word, rank, scope, declarator, members, data):
        return None
    before, after = data[declared.start_byte : name.start_byte], data[name.end_byte : declared.end_byte]
    sizes = _flat(after.decode("utf-8", "replace"))
    if re.match(r"\[\s*\]", sizes):
        if value is None or value.type != "initializer_list":
            return None
        sizes = f"[{len(value.named_children)}]" + sizes.split("]", 1)[1]
    first = "" if value is None else text_of(value, data)
    if value is not None and rank == 0 and value.type != "initializer_list":
        first = f"(sim_t_{word})({first})"
    first = f" = {{{{}}, {first}, {{}}}}" if first else ""
    return (
        f"typedef {kind} {before.decode('utf-8', 'replace')}sim_t_{word}{sizes}; ::sim_guarded<sim_t_{word}> sim_g_{word}{first}; "
        f'::sim_watch sim_w_{word}(sim_g_{word}, "{word}"); auto& {word} = sim_g_{word}.value;'
    )


def _reached_through_pointers(
    word: str, rank: int, scope: Node, declarator: Node, members: dict[str, int], data: bytes
) -> bool:
    """Return whether a name is used otherwise than by full subscripts: then a pointer into the variable may exist."""
    for use in nodes(scope, {"identifier"}):
        if text_of(use, data) != word or declarator.start_byte <= use.start_byte < declarator.end_byte:
            continue
        top, left = _past_subscripts(use, rank)
        while not left and top.parent is not None and top.parent.type in {"field_expression", "parenthesized_expression"}:  # fmt: skip
            top = top.parent
            field = top.child_by_field_name("field")
            if field is not None:
                top, left = _past_subscripts(top, members.get(text_of(field, data), 0))
        while top.parent is not None and top.parent.type == "parenthesized_expression":
            top = top.parent
        above = top.parent
        if above is not None and above.type == "sizeof_expression":
            continue
        if left or (
            above is not None and above.type == "pointer_expression" and above.children[0].type == "&"
        ):
            return True
    return False


def _past_subscripts(node: Node, rank: int) -> tuple[Node, int]:
    """Return the expression with up to `rank` subscripts that follow it, and how many are missing."""
    while rank and _is_indexed(node):
        node, rank = node.parent, rank - 1
    return node, rank


def _array_members(root: Node, data: bytes) -> dict[str, int]:
    """Return the names of members of the text's own types that are arrays, with their number of axes."""
    found: dict[str, int] = {}
    for field in nodes(root, {"field_declaration"}):
        for name in nodes(field, {"field_identifier"}):
            rank, inner = 0, name
            while inner.parent is not None and inner.parent.type == "array_declarator":
                inner, rank = inner.parent, rank + 1
            if rank:
                found[text_of(name, data)] = rank
    return found


def _is_indexed(node: Node) -> bool:
    above = node.parent
    return above is not None and above.type == "subscript_expression" and above.child_by_field_name("argument") == node  # fmt: skip


def _flat(text: str) -> str:
    return " ".join(text.split())
