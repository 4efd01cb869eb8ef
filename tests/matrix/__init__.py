"""Every storer with every searcher, chosen by configuration alone."""
