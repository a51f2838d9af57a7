"""Plans as drawings: what a function would build, by its types, and what was really built; as text, mermaid and SVG."""
