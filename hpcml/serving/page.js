"use strict";
// Everything that comes from the model or the text is put in as text, never as HTML.

const PROJECT = "/v1/projects/hpcml";
const WORDS = 8;
const at = (id) => document.getElementById(id);
let fields = ["text"];

function element(name, text, kind) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A name from the data: letters that nobody sees are written out, and its direction stays its own.
function name_of(text, longest = 200) {
  const shown = text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Cn}]/gu, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
  return element("bdi", shown.length > longest ? `${shown.slice(0, longest / 2)}…${shown.slice(-longest / 2)}` : shown);
}

function show_problem(text) {
  at("problem").hidden = !text;
  at("problem").textContent = text;
}

async function answer_of(response) {
  const value = await response.json().catch(() => ({ detail: response.statusText }));
  if (!response.ok) throw new Error(value.detail || response.statusText);
  return value;
}

function make_fields() {
  at("fields").replaceChildren();
  for (const field of ["text", ...fields.filter((each) => each !== "text" && each !== "title")].concat(fields.includes("title") ? ["title"] : []).reverse()) {
    if (!fields.includes(field)) continue;
    const label = element("label");
    label.append(name_of(field));
    label.htmlFor = `field-${fields.indexOf(field)}`;
    const area = element("textarea");
    area.id = label.htmlFor;
    area.rows = field === "text" || fields.length === 1 ? 9 : 1;
    area.spellcheck = false;
    area.dataset.field = field;
    at("fields").append(label, area);
  }
}

// Only 1 is 100 %, and only 0 is 0 %.
function percent(probability) {
  const share = 100 * probability;
  if (share > 99.5 && share < 100) return share < 99.995 ? `${Math.floor(100 * share) / 100} %` : "> 99.99 %";
  if (share > 0 && share < 0.005) return "< 0.01 %";
  return `${share.toFixed(share >= 9.95 ? 0 : share >= 0.995 ? 1 : 2)} %`;
}

function line_of(heading) {
  const line = element("li", undefined, heading.given ? "heading given" : "heading");
  const top = element("div", undefined, "top");
  const title = element("span", undefined, "name");
  title.append(name_of(heading.label));
  top.append(title, element("span", percent(heading.score), "score"));
  if (heading.uri !== heading.label) {
    const uri = element("span", undefined, "uri");
    uri.append(name_of(heading.uri));
    top.append(uri);
  }
  const bar = element("progress");
  bar.max = 1;
  bar.value = heading.score;
  bar.setAttribute("aria-label", "probability");
  const words = element("ul", undefined, "words");
  for (const [word, added] of heading.words || []) {
    const one = element("li", undefined, added < 0 ? "against" : "for");
    one.append(name_of(word, 60), ` ${added < 0 ? "−" : "+"}${Math.abs(added).toFixed(2)}`);
    words.append(one);
  }
  line.append(top, bar, words);
  return line;
}

function show(headings, warning) {
  at("headings").replaceChildren(...headings.map(line_of));
  at("legend").textContent = headings.length
    ? "✓: given by the model's threshold. Words: what each adds to the log-odds, or takes from them."
    : `${warning || "no headings"}.`.replace(/^n/, "N");
  at("found").hidden = false;
}

async function ask(event) {
  event.preventDefault();
  const form = new URLSearchParams({ limit: at("limit").value, words: WORDS });
  let said = false;
  for (const area of document.querySelectorAll("textarea")) {
    form.set(area.dataset.field === "text" ? "text" : `metadata_${area.dataset.field}`, area.value);
    said ||= area.value.trim() !== "";
  }
  if (!form.has("text")) form.set("text", "");
  if (!said) return show_problem("There is no text yet.");
  show_problem("");
  at("ask").disabled = true;
  at("state").textContent = "…";
  const begin = performance.now();
  try {
    const found = await answer_of(await fetch(`${PROJECT}/suggest`, { method: "POST", body: form }));
    show(found.results, found.warning);
    at("state").textContent = `${Math.max(1, Math.round(performance.now() - begin))} ms`;
  } catch (error) {
    at("state").textContent = "";
    at("found").hidden = true;
    show_problem(error instanceof TypeError ? "The server does not answer." : error.message);
  } finally {
    at("ask").disabled = false;
    document.documentElement.dataset.answers = Number(document.documentElement.dataset.answers || 0) + 1;
  }
}

async function start() {
  try {
    const about = await answer_of(await fetch(PROJECT));
    fields = about.fields;
    at("about").replaceChildren(name_of(about.name), `: ${about.labels.toLocaleString("en")} headings, ${about.features.toLocaleString("en")} features`);
    at("source").textContent = `Probabilities: ${about.probabilities}. Thresholds: ${about.thresholds}.` + (about.words ? "" : " This model has no words for a heading.");
  } catch (error) {
    show_problem("The server does not answer.");
  }
  make_fields();
  at("form").addEventListener("submit", ask);
  document.documentElement.dataset.ready = "yes";
}

start();
