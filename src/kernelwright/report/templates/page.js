// Tabs. Without this script every section is shown, one below the other.
const tabs = [...document.querySelectorAll("[role=tab]")];
function show(id, focus) {
  const chosen = tabs.find((tab) => tab.hash === id) || tabs[0];
  for (const tab of tabs) {
    const on = tab === chosen;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    document.querySelector(tab.hash).hidden = !on;
  }
  if (focus) chosen.focus();
}
tabs.forEach((tab, i) => {
  tab.addEventListener("click", (event) => {
    event.preventDefault();
    history.replaceState(null, "", tab.hash);
    show(tab.hash);
  });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) show(tabs[(i + step + tabs.length) % tabs.length].hash, true);
  });
});
window.addEventListener("hashchange", () => show(location.hash));
show(location.hash);

// Zoom of the program picture, and its fragments lit up from the legend.
const graph = document.getElementById("graph");
const natural = graph.viewBox.baseVal;
let zoom = 1;
function setZoom(value) {
  zoom = Math.min(3, Math.max(0.15, value));
  graph.setAttribute("width", natural.width * zoom);
  graph.setAttribute("height", natural.height * zoom);
}
const fit = () => Math.min(1, graph.parentElement.clientWidth / natural.width);
document.querySelector(".zoom").hidden = false;
for (const button of document.querySelectorAll("[data-zoom]")) {
  const next = { in: () => zoom * 1.25, out: () => zoom / 1.25, fit }[button.dataset.zoom];
  button.addEventListener("click", () => setZoom(next()));
}
for (const item of document.querySelectorAll(".legend [data-fragment]")) {
  const light = (on) => {
    for (const node of graph.querySelectorAll(".node"))
      node.classList.toggle("dim", on && node.dataset.fragment !== item.dataset.fragment);
  };
  item.addEventListener("mouseenter", () => light(true));
  item.addEventListener("mouseleave", () => light(false));
}
