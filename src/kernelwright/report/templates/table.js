"use strict";
// Tables sort; tables with a form of filters also show their rows in portions, as long tables are
// slow to lay out. Without this script every row is shown.
const PORTION = 100;
const words = new Intl.Collator("en", { numeric: true });

// Numbers by data-value, missing ones last in both directions; other cells by their text.
function sorted(rows, column, sign) {
  const keys = new Map(rows.map((row) => {
    const { dataset, textContent } = row.cells[column];
    return [row, dataset.value === undefined ? textContent : dataset.value && Number(dataset.value)];
  }));
  return [...rows].sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    return sign * (typeof x === "string" ? words.compare(x, y) : x - y);
  });
}

// Rows that are cards on a narrow screen have no table for a screen reader, unless roles say so.
function setRoles(table) {
  if (!table.classList.contains("stacked")) return;
  const roles = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell" };
  for (const part of [table, ...table.querySelectorAll("thead, tbody, tr, td, th")])
    part.setAttribute("role", roles[part.tagName] || (part.scope === "row" ? "rowheader" : "columnheader"));
}

document.querySelectorAll("table").forEach(setRoles);
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const form = document.querySelector(`form[data-table="${table.id}"]`);
  let rows = [...body.rows], matching = rows, first = 0;

  function show() {
    body.replaceChildren(...(form ? matching.slice(first, first + PORTION) : matching));
    setRoles(table);
    if (!form) return;
    const [last, total] = [Math.min(first + PORTION, matching.length), matching.length];
    const range = total > PORTION ? `${first + 1} to ${last} of ` : "";
    form.querySelector("output").textContent =
      `${range}${total} ${total === 1 ? "row" : "rows"}` + (total < rows.length ? ` (of ${rows.length})` : "");
    const [back, next] = form.querySelectorAll("button");
    back.hidden = next.hidden = total <= PORTION;
    [back.disabled, next.disabled] = [first === 0, last === total];
  }

  function filter() {
    const [text, kind] = !form ? ["", ""] : [form.elements.text.value.trim().toLowerCase(), form.elements.kind.value];
    matching = rows.filter((row) => (!kind || row.dataset.kind === kind) &&
      (!text || (row.seen ??= row.textContent.toLowerCase()).includes(text)));
    first = 0;
    show();
  }

  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows = sorted(rows, column, up ? 1 : -1);
      filter();
    });
  });
  if (form) {
    form.hidden = false;
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.querySelectorAll("button").forEach((button, i) =>
      button.addEventListener("click", () => { first += i ? PORTION : -PORTION; show(); }));
  }
  show();
  table.classList.add("ready");
}
