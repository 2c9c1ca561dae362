"""The reviewer's desk: pages in a browser for people who decide requests; it asks the use cases and decides nothing."""
