"""One page for a run or a comparison: a file that opens from disk and asks nothing of the network."""

from geodesic.report.page.write import PAGE, check_extra, write_report

__all__ = ["PAGE", "check_extra", "write_report"]
