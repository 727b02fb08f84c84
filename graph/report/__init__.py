"""A run as a page: pieces shared by the notebook's view of a result and by `report.html`."""
