"""Names that somebody might choose to break a page with."""

NAMES = [
    "</script><script>document.title = 'broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">",
    "\"'`&amp;<b>bold</b>",
    "שלום עולם",
    "\u202eright to left, forced",
    "x" * 5000,
    "a &lt;i&gt; b",
    "${7*7} {{7*7}} {% raw %}",
    "line\u2028separator\nand newline",
    "--><!--",
]
