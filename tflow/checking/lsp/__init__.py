"""``tflow lsp``: a language server. Diagnostics, types of streams, laws, repairs and drawings, while plans are typed."""
