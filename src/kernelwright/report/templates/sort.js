"use strict";
// Sorting: numbers by data-value, missing ones last in both directions.
function compare(a, b, column, sign) {
  const [x, y] = [a, b].map((row) => row.cells[column]);
  if (x.dataset.value === undefined) return sign * x.textContent.localeCompare(y.textContent);
  const [p, q] = [x, y].map((cell) => cell.dataset.value);
  if (p === "" || q === "") return (p === "") - (q === "");
  return sign * (Number(p) - Number(q));
}
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(a, b, column, up ? 1 : -1));
      table.tBodies[0].append(...rows);
    });
  });
}

