// Tables of labels: the rows are JSON in the page, and every cell is text, never HTML.
const number = (digits) => (value, kind) => {
  if (kind !== "display") return value === null ? (kind === "filter" ? "" : -Infinity) : value;
  return value === null ? "–" : digits === null ? value.toLocaleString("en") : value < 1 && value >= 1 - 0.5 * 10 ** -digits ? `> ${(1 - 10 ** -digits).toFixed(digits)}` : value > 0 && value < 0.01 ? String(Number(value.toPrecision(2))) : value.toFixed(digits);
};
const text = library.render.text();
const KINDS = {
  text: { type: "string", render: text, className: "text" },
  words: { type: "string", render: text, className: "text words", orderable: false },
  count: { type: "num", render: number(null), className: "number", searchable: false },
  measure: { type: "num", render: number(3), className: "number", searchable: false },
  score: { type: "num", render: (v, kind) => (kind === "display" ? (v === null ? "–" : String(v)) : (v ?? -Infinity)), className: "number", searchable: false },
};
for (const table of document.querySelectorAll("table.labels")) {
  const { kinds, rows, order } = JSON.parse(document.getElementById(table.dataset.source).textContent);
  table.tBodies[0].replaceChildren();
  new library(table, {
    data: rows,
    columns: kinds.map((kind) => KINDS[kind]),
    order: [[order, "desc"]],
    deferRender: true,
    autoWidth: false,
    pageLength: 25,
    lengthMenu: [10, 25, 100, 1000],
    layout: { topStart: "search", topEnd: "info", bottomStart: "pageLength", bottomEnd: "paging" },
    language: { search: "", searchPlaceholder: "Search labels and features", info: "_START_ to _END_ of _TOTAL_ labels", infoEmpty: "no labels", infoFiltered: "(of _MAX_)", lengthMenu: "_MENU_ per page", zeroRecords: "no matching label", emptyTable: "no labels", thousands: "," },
  });
}
document.documentElement.dataset.ready = "yes";
