"""Which grammar reads a file, and what counts as a definition or an import in it: data, and its lazy loading.

Grammars are the published tree-sitter ones. A query captures `@name` and the defining node under the kind it has
(`@class`, `@function`, ...). Knows nothing of repositories.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache

from tree_sitter import Language, Query

_ECMA = """
(class_declaration name: (_) @name) @class
(class name: (_) @name) @class
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(method_definition name: (_) @name) @method
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(program (variable_declaration (variable_declarator name: (identifier) @name)) @constant)
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
"""
_TYPED = """
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @enum
(internal_module name: (_) @name) @module
(function_signature name: (_) @name) @function
(public_field_definition name: (_) @name value: (arrow_function)) @method
"""
_FIELD = """
(field_definition property: (_) @name value: (arrow_function)) @method
"""
_C = """
(function_definition declarator: (_) @declarator) @function
(struct_specifier name: (type_identifier) @name body: (_)) @struct
(union_specifier name: (type_identifier) @name body: (_)) @struct
(enum_specifier name: (type_identifier) @name body: (_)) @enum
(type_definition declarator: (type_identifier) @name) @type
(preproc_def name: (_) @name) @constant
(preproc_function_def name: (_) @name) @macro
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @constant)
"""
_QUERIES = {
    "python": """
        (class_definition name: (_) @name) @class
        (function_definition name: (_) @name) @function
        (module (expression_statement (assignment left: (identifier) @name) @constant))
        (class_definition body: (block (expression_statement (assignment left: (identifier) @name) @constant)))
        (type_alias_statement left: (type) @name) @type
    """,
    "javascript": _ECMA + _FIELD,
    "typescript": _ECMA + _TYPED,
    "tsx": _ECMA + _TYPED,
    "go": """
        (function_declaration name: (_) @name) @function
        (method_declaration name: (_) @name) @method
        (type_spec name: (_) @name) @type
        (type_alias name: (_) @name) @type
        (source_file (const_declaration (const_spec name: (identifier) @name) @constant))
        (source_file (var_declaration (var_spec name: (identifier) @name) @constant))
    """,
    "java": """
        (class_declaration name: (_) @name) @class
        (interface_declaration name: (_) @name) @interface
        (enum_declaration name: (_) @name) @enum
        (record_declaration name: (_) @name) @class
        (annotation_type_declaration name: (_) @name) @interface
        (method_declaration name: (_) @name) @method
        (constructor_declaration name: (_) @name) @method
        (field_declaration declarator: (variable_declarator name: (_) @name)) @constant
    """,
    "rust": """
        (struct_item name: (_) @name) @struct
        (enum_item name: (_) @name) @enum
        (union_item name: (_) @name) @struct
        (trait_item name: (_) @name) @interface
        (type_item name: (_) @name) @type
        (function_item name: (_) @name) @function
        (function_signature_item name: (_) @name) @function
        (mod_item name: (_) @name body: (_)) @module
        (const_item name: (_) @name) @constant
        (static_item name: (_) @name) @constant
        (macro_definition name: (_) @name) @macro
    """,
    "c": _C,
    "cpp": _C
    + """
        (class_specifier name: (type_identifier) @name body: (_)) @class
        (namespace_definition name: (_) @name) @module
        (alias_declaration name: (_) @name) @type
        (concept_definition name: (_) @name) @type
        (field_declaration declarator: (function_declarator declarator: (field_identifier) @name)) @method
    """,
    "c_sharp": """
        (class_declaration name: (_) @name) @class
        (interface_declaration name: (_) @name) @interface
        (struct_declaration name: (_) @name) @struct
        (record_declaration name: (_) @name) @class
        (enum_declaration name: (_) @name) @enum
        (delegate_declaration name: (_) @name) @type
        (method_declaration name: (_) @name) @method
        (constructor_declaration name: (_) @name) @method
        (property_declaration name: (_) @name) @property
        (field_declaration (variable_declaration (variable_declarator name: (_) @name))) @constant
    """,
    "ruby": """
        (class name: (_) @name) @class
        (module name: (_) @name) @module
        (method name: (_) @name) @method
        (singleton_method name: (_) @name) @method
        (assignment left: (constant) @name) @constant
    """,
    "php": """
        (class_declaration name: (_) @name) @class
        (interface_declaration name: (_) @name) @interface
        (trait_declaration name: (_) @name) @class
        (enum_declaration name: (_) @name) @enum
        (function_definition name: (_) @name) @function
        (method_declaration name: (_) @name) @method
        (const_element . (name) @name) @constant
    """,
    "kotlin": """
        (class_declaration name: (_) @name) @class
        (object_declaration name: (_) @name) @class
        (function_declaration name: (_) @name) @function
        (type_alias type: (identifier) @name) @type
        (source_file (property_declaration (variable_declaration (identifier) @name)) @constant)
    """,
}
_PACKAGES = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "c_sharp": ("tree_sitter_c_sharp", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "kotlin": ("tree_sitter_kotlin", "language"),
}
_EXTENSIONS = {
    "python": ("py", "pyi", "pyw"),
    "javascript": ("js", "jsx", "mjs", "cjs"),
    "typescript": ("ts", "mts", "cts"),
    "tsx": ("tsx",),
    "go": ("go",),
    "java": ("java",),
    "rust": ("rs",),
    "c": ("c",),
    # A header may be either; the C++ grammar reads C well enough for names and ranges.
    "cpp": ("cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "ipp", "cu", "cuh"),
    "c_sharp": ("cs",),
    "ruby": ("rb", "rake", "gemspec"),
    "php": ("php", "phtml"),
    "kotlin": ("kt", "kts"),
}
_BY_EXTENSION = {extension: name for name, group in _EXTENSIONS.items() for extension in group}

IMPORTS = frozenset(
    {
        *("import_statement", "import_from_statement", "future_import_statement"),
        *("import_declaration", "package_clause", "package_declaration", "package_header", "import", "import_header"),
        *("use_declaration", "extern_crate_declaration"),
        *("preproc_include", "using_directive", "using_declaration", "namespace_use_declaration"),
        "import_list",
    }
)
"""Types of the top-level nodes that import; Ruby's `require` calls are calls, hence `imports_by_call`."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language ready to use. Both parts may be shared between threads."""

    name: str
    language: Language
    definitions: Query

    @property
    def imports_by_call(self) -> bool:
        return self.name == "ruby"


def grammar_of(path: str) -> Grammar | None:
    """The grammar for a file by its extension, or None when there is none."""
    name = _BY_EXTENSION.get(path.rpartition(".")[2].lower())
    return None if name is None else grammar(name)


@cache
def grammar(name: str) -> Grammar:
    """A grammar by name, loaded once per process."""
    package, function = _PACKAGES[name]
    language = Language(getattr(importlib.import_module(package), function)())
    return Grammar(name, language, Query(language, _QUERIES[name]))
