"use strict";
// Content of the model and of the text is inserted as text, never as HTML.

const PROJECT = "/v1/projects/hpcml";
const WORDS = 8;
const MOST = 1000;
const at = (id) => document.getElementById(id);
let fields = ["text"];

function element(name, text, kind) {
  const created = document.createElement(name);
  if (kind) created.className = kind;
  if (text !== undefined) created.textContent = text;
  return created;
}

// Returns a name from the data. Invisible characters are escaped, and its text direction does not affect other text.
function name_element(text, longest = 200) {
  const visible = text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Cn}]/gu, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
  return element("bdi", visible.length > longest ? `${visible.slice(0, longest / 2)}…${visible.slice(-longest / 2)}` : visible);
}

function show_problem(text) {
  at("problem").hidden = !text;
  at("problem").textContent = text;
}

async function parse_response(response) {
  const value = await response.json().catch(() => ({ detail: response.statusText }));
  if (!response.ok) throw new Error(value.detail || response.statusText);
  return value;
}

function make_fields() {
  at("fields").replaceChildren();
  for (const field of ["text", ...fields.filter((each) => each !== "text" && each !== "title")].concat(fields.includes("title") ? ["title"] : []).reverse()) {
    if (!fields.includes(field)) continue;
    const label = element("label");
    label.append(name_element(field));
    label.htmlFor = `field-${fields.indexOf(field)}`;
    const area = element("textarea");
    area.id = label.htmlFor;
    area.rows = field === "text" || fields.length === 1 ? 9 : 1;
    area.spellcheck = false;
    area.dataset.field = field;
    at("fields").append(label, area);
  }
}

// Only 1 is shown as 1.00, and only 0 as 0.00.
function decimal(value, digits) {
  const text = value.toFixed(digits), step = 10 ** -digits;
  if (value > 0 && Number(text) === 0) return `< ${step.toFixed(digits)}`;
  return value < 1 && Number(text) === 1 ? `> ${(1 - step).toFixed(digits)}` : text;
}

// Returns a probability and a threshold with enough digits to distinguish them: two to six.
function decimals(score, threshold) {
  let digits = 2;
  while (digits < 6 && decimal(score, digits) === decimal(threshold, digits)) digits++;
  return [decimal(score, digits), decimal(threshold, digits)];
}

function result_element(result) {
  const line = element("li", undefined, result.given ? "result given" : "result");
  const top = element("div", undefined, "top");
  const title = element("span", undefined, "name");
  title.append(name_element(result.label));
  const [score, threshold] = decimals(result.score, result.threshold);
  const decision = element("span", undefined, "decision");
  decision.append(element("b", score, "score"), `, ${result.given ? "above" : "not above"} this label’s threshold ${threshold}`);
  top.append(title, decision);
  if (result.uri !== result.label) {
    const uri = element("span", undefined, "uri");
    uri.append(name_element(result.uri));
    top.append(uri);
  }
  const bar = element("div", undefined, "bar"), share = element("progress"), mark = element("span", undefined, "mark");
  share.max = 1;
  share.value = result.score;
  share.setAttribute("aria-label", "probability");
  mark.style.left = `${100 * result.threshold}%`;
  bar.append(share, mark);
  const words = element("ul", undefined, "words");
  for (const [word, added] of result.words || []) {
    const one = element("li", undefined, added < 0 ? "against" : "for");
    one.append(name_element(word, 60), ` ${added < 0 ? "−" : "+"}${Math.abs(added).toFixed(2)}`);
    words.append(one);
  }
  line.append(top, bar, words);
  return line;
}

// Shows all predicted labels, then the most probable of the others.
function show(given, best, limit, warning) {
  const others = best.filter((each) => !each.given).slice(0, Math.max(0, limit - given.length));
  at("given").replaceChildren(...given.map(result_element));
  at("others").replaceChildren(...others.map(result_element));
  at("given-title").textContent = warning ? `${warning[0].toUpperCase()}${warning.slice(1)}.` : given.length ? `Predicted labels (${given.length})` : "No label is predicted";
  at("others-title").textContent = `Most probable other labels (${others.length})`;
  at("others-title").hidden = !others.length;
  at("legend").hidden = !given.length && !others.length;
  at("found").hidden = false;
}

function suggest(project, limit, form) {
  const body = new URLSearchParams(form);
  body.set("limit", limit);
  return fetch(`${project}/suggest`, { method: "POST", body }).then(parse_response);
}

async function ask(event) {
  event.preventDefault();
  const form = new URLSearchParams({ words: WORDS }), limit = Number(at("limit").value);
  let has_text = false;
  for (const area of document.querySelectorAll("textarea")) {
    form.set(area.dataset.field === "text" ? "text" : `metadata_${area.dataset.field}`, area.value);
    has_text ||= area.value.trim() !== "";
  }
  if (!form.has("text")) form.set("text", "");
  if (!has_text) return show_problem("Enter a text first.");
  show_problem("");
  at("ask").disabled = true;
  at("state").textContent = "…";
  const begin = performance.now();
  try {
    const [given, best] = await Promise.all([suggest(`${PROJECT}-given`, MOST, form), suggest(PROJECT, limit, form)]);
    show(given.results, best.results, limit, best.warning);
    at("state").textContent = `${Math.max(1, Math.round(performance.now() - begin))} ms`;
  } catch (error) {
    at("state").textContent = "";
    at("found").hidden = true;
    show_problem(error instanceof TypeError ? "The server does not respond." : error.message);
  } finally {
    at("ask").disabled = false;
    document.documentElement.dataset.answers = Number(document.documentElement.dataset.answers || 0) + 1;
  }
}

async function start() {
  try {
    const about = await parse_response(await fetch(PROJECT));
    fields = about.fields;
    at("about").replaceChildren(name_element(about.name), `: ${about.labels.toLocaleString("en")} labels, ${about.features.toLocaleString("en")} features`);
    at("source").textContent = `Probabilities: ${about.probabilities}. Thresholds: ${about.thresholds}.` + (about.words ? "" : " This model has no word contributions.");
  } catch (error) {
    show_problem("The server does not respond.");
  }
  make_fields();
  at("form").addEventListener("submit", ask);
  document.documentElement.dataset.ready = "yes";
}

start();
