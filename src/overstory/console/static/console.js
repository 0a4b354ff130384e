// What the console's pages gain from a script: a cursor on charts, and forms that follow every change.
// Nothing here is needed: without it the same forms have a button, and every chart has a table.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

// A chart's cursor: arrow keys, Home and End, or the mouse; the numbers are read out below the chart.
function addCursor(figure) {
  const data = figure.querySelector("svg[data-cursor] metadata");
  if (!data) return;
  const { labels, series } = JSON.parse(data.textContent);
  if (!labels.length) return;
  const drawings = [...figure.querySelectorAll("svg[data-cursor]")].map((svg) => {
    const [axis, first, last] = svg.dataset.cursor.split(" ");
    const line = svg.appendChild(document.createElementNS(SVG, "line"));
    line.setAttribute("class", "cursor-line");
    return { svg, line, axis, first: Number(first), last: Number(last), box: svg.viewBox.baseVal };
  });
  const output = document.createElement("output");
  output.className = series.length > 1 ? "cursor several" : "cursor";
  const isFirst = !document.querySelector("output.cursor");
  output.textContent = isFirst ? "Arrow keys or the mouse read the numbers of a chart out." : "";
  figure.insertBefore(output, figure.querySelector("figcaption"));
  figure.tabIndex = 0;
  figure.setAttribute("role", "group");
  figure.setAttribute("aria-label", figure.querySelector("figcaption").textContent);
  let place = drawings[0].axis === "x" ? labels.length : -1;

  function show(next) {
    place = Math.max(0, Math.min(labels.length - 1, next));
    const numbers = series.map((one) => reading(one, place)).filter(Boolean);
    output.textContent = `${labels[place]}: ${numbers.join("; ") || "no reports"}`;
    for (const { line, axis, first, last, box } of drawings) {
      const at = labels.length > 1 ? first + ((last - first) * place) / (labels.length - 1) : first;
      const across = axis === "x" ? { x1: at, x2: at, y1: 0, y2: box.height } : { x1: 0, x2: box.width, y1: at, y2: at };
      for (const [name, value] of Object.entries(across)) line.setAttribute(name, value);
    }
  }

  figure.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || event.target !== figure) return;
    event.preventDefault();
    output.setAttribute("aria-live", "polite");
    show(place + step);
  });
  for (const { svg, axis, first, last, box } of drawings) {
    svg.addEventListener("pointermove", (event) => {
      const shown = svg.getBoundingClientRect();
      const at = axis === "x"
        ? ((event.clientX - shown.left) / shown.width) * box.width
        : ((event.clientY - shown.top) / shown.height) * box.height;
      output.setAttribute("aria-live", "off"); // a screen reader would not keep up with the mouse
      show(last > first ? Math.round(((at - first) / (last - first)) * (labels.length - 1)) : 0);
    });
  }
}

// A click on a name of a chart does what its link below the chart does.
function addPicking(figure) {
  figure.addEventListener("click", (event) => {
    const name = event.target.closest("[data-name]")?.dataset.name;
    [...document.querySelectorAll("main .links a")].find((link) => link.textContent === `without ${name}`)?.click();
  });
}

// The numbers of one line at a place, as a sentence's part; nothing where there are no reports.
function reading(one, place) {
  const name = one.name ? `${one.name} ` : "";
  if (one.count) return `${name}${one.count[place].toLocaleString("en")}`;
  if (one.share[place] === null) return "";
  const number = (list) => list[place].toFixed(2);
  const ends = one.low[place] === null ? "" : ` (${number(one.low)} to ${number(one.high)}%)`;
  return `${name}${number(one.share)}%${ends}${one.detected[place] === "1" ? "" : `, ${one.unsure}`}`;
}

// A form that follows every change: the answer's main part takes the place of this page's, and its address that of
// this one. The field that has the focus keeps it.
let pending = { timer: 0, request: new AbortController() };

function follow(form) {
  form.addEventListener("input", (event) => {
    if (event.target.type === "file") return;
    clearTimeout(pending.timer);
    pending.timer = setTimeout(() => load(form).catch(() => {}), 250);
  });
}

async function load(form) {
  pending.request.abort();
  pending.request = new AbortController();
  const fields = [...new FormData(form)].filter(([, value]) => value !== "");
  const address = `${form.getAttribute("action") || location.pathname}?${new URLSearchParams(fields)}`;
  const answer = await fetch(address, { signal: pending.request.signal });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const main = page.querySelector("main");
  if (!main || answer.status === 401) return form.submit();
  const around = form.parentElement.matches("main") && sameForm(main, form);
  if (around) {
    replaceAround(form, around); // whoever types goes on typing
  } else {
    replaceAll(main);
  }
  document.querySelector("footer")?.replaceWith(page.querySelector("footer"));
  document.title = page.title;
  history.replaceState(null, "", address);
}

// The form of another page that has the same fields, where it is a part of the page's own level.
function sameForm(main, form) {
  const names = (one) => [...one.elements].map((x) => x.name).join(" ");
  return [...main.children].find((x) => x.matches("form[data-live]") && names(x) === names(form));
}

function replaceAround(form, other) {
  const parts = [...other.parentElement.childNodes], place = parts.indexOf(other);
  for (const old of [...form.parentElement.childNodes]) if (old !== form) old.remove();
  form.before(...parts.slice(0, place));
  form.after(...parts.slice(place + 1));
  [...form.parentElement.children].filter((part) => part !== form).forEach(enhance);
}

function replaceAll(main) {
  const focused = document.activeElement, name = focused && focused.name, type = focused && focused.type;
  const typed = focused && focused.value;
  document.querySelector("main").replaceWith(main);
  enhance(main);
  const again = [...main.querySelectorAll("input, select, textarea")].find((x) => x.name === name && x.type === type);
  if (name && again) {
    again.value = typed;
    again.focus();
  }
}

function enhance(part) {
  const all = (selector) => [...(part.matches?.(selector) ? [part] : []), ...part.querySelectorAll(selector)];
  all("figure").forEach((figure) => (addCursor(figure), addPicking(figure)));
  all("form[data-live]").forEach(follow);
}

enhance(document);
