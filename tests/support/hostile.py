"""Names that could break an HTML page."""

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
