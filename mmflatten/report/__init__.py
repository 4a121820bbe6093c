"""One offline HTML page on one run or several: `page.write_report(work_dirs, out)`."""
