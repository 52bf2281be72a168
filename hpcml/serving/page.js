"use strict";
// Everything that comes from the model or the text is put in as text, never as HTML.

const PROJECT = "/v1/projects/hpcml";
const WORDS = 8;
const MOST = 1000;
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

// Only 1 is 1.00, and only 0 is 0.00.
function decimal(value, digits) {
  const text = value.toFixed(digits), step = 10 ** -digits;
  if (value > 0 && Number(text) === 0) return `< ${step.toFixed(digits)}`;
  return value < 1 && Number(text) === 1 ? `> ${(1 - step).toFixed(digits)}` : text;
}

// A probability and a threshold with as many digits as tell them apart, two to six.
function decimals(score, threshold) {
  let digits = 2;
  while (digits < 6 && decimal(score, digits) === decimal(threshold, digits)) digits++;
  return [decimal(score, digits), decimal(threshold, digits)];
}

function line_of(result) {
  const line = element("li", undefined, result.given ? "result given" : "result");
  const top = element("div", undefined, "top");
  const title = element("span", undefined, "name");
  title.append(name_of(result.label));
  const [score, threshold] = decimals(result.score, result.threshold);
  const decision = element("span", undefined, "decision");
  decision.append(element("b", score, "score"), `, ${result.given ? "above" : "not above"} this label’s threshold ${threshold}`);
  top.append(title, decision);
  if (result.uri !== result.label) {
    const uri = element("span", undefined, "uri");
    uri.append(name_of(result.uri));
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
    one.append(name_of(word, 60), ` ${added < 0 ? "−" : "+"}${Math.abs(added).toFixed(2)}`);
    words.append(one);
  }
  line.append(top, bar, words);
  return line;
}

// First all labels that are given, then the most probable of the others.
function show(given, best, limit, warning) {
  const others = best.filter((each) => !each.given).slice(0, Math.max(0, limit - given.length));
  at("given").replaceChildren(...given.map(line_of));
  at("others").replaceChildren(...others.map(line_of));
  at("given-title").textContent = warning ? `${warning}.`.replace(/^n/, "N") : given.length ? `Given (${given.length})` : "No label is given";
  at("others-title").textContent = `Not given: the ${others.length} most probable`;
  at("others-title").hidden = !others.length;
  at("legend").hidden = !given.length && !others.length;
  at("found").hidden = false;
}

function suggest(project, limit, form) {
  const body = new URLSearchParams(form);
  body.set("limit", limit);
  return fetch(`${project}/suggest`, { method: "POST", body }).then(answer_of);
}

async function ask(event) {
  event.preventDefault();
  const form = new URLSearchParams({ words: WORDS }), limit = Number(at("limit").value);
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
    const [given, best] = await Promise.all([suggest(`${PROJECT}-given`, MOST, form), suggest(PROJECT, limit, form)]);
    show(given.results, best.results, limit, best.warning);
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
    at("about").replaceChildren(name_of(about.name), `: ${about.labels.toLocaleString("en")} labels, ${about.features.toLocaleString("en")} features`);
    at("source").textContent = `Probabilities: ${about.probabilities}. Thresholds: ${about.thresholds}.` + (about.words ? "" : " This model cannot say which words count.");
  } catch (error) {
    show_problem("The server does not answer.");
  }
  make_fields();
  at("form").addEventListener("submit", ask);
  document.documentElement.dataset.ready = "yes";
}

start();
