// Draws the figures of the page in the colours of the present theme; those of a closed part once it is opened.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const drawn = new Set();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Puts the values of CSS variables in the place of their names.
  const themed = (value) => {
    if (typeof value === "string") return value.startsWith("--") ? colour(value) : value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(themed);
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, themed(part)]));
    return value;
  };
  const config = { displaylogo: false, displayModeBar: "hover", responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const layoutOf = (figure) => {
    const layout = themed(figure.layout);
    for (const key of Object.keys(layout).filter((name) => /^[xy]axis/.test(name))) {
      const axis = layout[key];
      layout[key] = { gridcolor: colour("--grid"), linecolor: colour("--rule"), zerolinecolor: colour("--rule"), separatethousands: true, exponentformat: "none", ...axis,
        title: { standoff: 8, ...axis.title, font: { size: 12 } } };
    }
    return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true, ...layout,
      margin: { l: 10, r: 16, t: 16, b: 10, ...layout.margin },
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--text") },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: colour("--link") },
      hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--rule"), font: { color: colour("--text") } } };
  };
  const draw = (element) => {
    const figure = figures[element.id];
    if (!figure || element.closest("details:not([open])")) return;
    drawn.add(element.id);
    const layout = layoutOf(figure);
    if (document.documentElement.hasAttribute("data-print")) layout.width = element.clientWidth;
    Plotly.react(element, themed(figure.data), layout, config);
  };
  const again = () => drawn.forEach((id) => draw(document.getElementById(id)));
  const all = () => document.querySelectorAll(".chart").forEach((element) => drawn.has(element.id) || draw(element));
  document.querySelectorAll("details").forEach((details) => details.addEventListener("toggle", all));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  // A link into a closed part opens it.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const details = target && target.closest("details");
    if (details) details.open = true;
  };
  addEventListener("hashchange", reveal);
  // On paper: light, everything open but the charts of trials that the reader left closed.
  let opened = [];
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.print = "";
    opened = [...document.querySelectorAll("details:not([open]):not(.card)")];
    opened.forEach((details) => { details.open = true; });
    again();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.print;
    opened.forEach((details) => { details.open = false; });
    again();
  });
  reveal();
  all();
})();
