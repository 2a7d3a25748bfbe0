"""One script a question: ``python -m docs.measured.output_layer`` measures, stores and writes its table."""
