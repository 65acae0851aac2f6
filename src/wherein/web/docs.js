// The API's description, drawn from /openapi.json.

import { description } from "./api.js";
import { h, problem } from "./dom.js";

const view = document.getElementById("view");
let api = null;

const resolve = (schema) => (schema?.$ref ? { name: schema.$ref.split("/").pop(), ...api.components.schemas[schema.$ref.split("/").pop()] } : schema);

function type(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(type).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.type === "array") return schema.prefixItems ? `[${schema.prefixItems.map(type).join(", ")}]` : `list of ${type(schema.items)}`;
  return schema.type ?? "anything";
}

function fields(schema) {
  const found = resolve(schema);
  if (!found?.properties) return h("p", {}, h("code", {}, type(schema)));
  return h("table", {}, h("tbody", {}, Object.entries(found.properties).map(([name, one]) => h("tr", {},
    h("th", { scope: "row" }, h("code", {}, name), (found.required ?? []).includes(name) ? " *" : ""), h("td", {}, type(one), one.default === undefined ? "" : `, ${JSON.stringify(one.default)} unless given`), h("td", {}, one.description ?? "")))));
}

function route(path, method, about) {
  const body = Object.entries(about.requestBody?.content ?? {})[0];
  const answer = Object.entries(about.responses).find(([status]) => status.startsWith("2"));
  const shape = answer?.[1].content?.["application/json"]?.schema;
  return h("details", { class: "route" },
    h("summary", {}, h("b", { class: method }, method.toUpperCase()), " ", h("code", {}, path), h("span", { class: "quiet" }, about.description ?? "")),
    about.parameters?.length ? h("h3", {}, "Parameters") : "",
    about.parameters?.length ? h("table", {}, h("tbody", {}, about.parameters.map((one) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, one.name), one.required ? " *" : ""), h("td", {}, `${one.in}: ${type(one.schema)}`), h("td", {}, one.description ?? ""))))) : "",
    body ? h("h3", {}, `Body, ${body[0]}`) : "", body ? fields(body[1].schema) : "",
    h("h3", {}, `Answer ${answer?.[0] ?? ""}`), shape ? fields(shape) : h("p", { class: "quiet" }, Object.keys(answer?.[1].content ?? {}).join(", ") || answer?.[1].description));
}

async function show() {
  const title = h("h1", {}, "HTTP API");
  try {
    api = await description();
  } catch (error) {
    view.replaceChildren(title, problem(error, show));
    return;
  }
  const groups = {};
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, about] of Object.entries(methods)) (groups[about.tags?.[0] ?? "other"] ??= []).push(route(path, method, about));
  }
  view.replaceChildren(title, h("p", {}, api.info.description), ...Object.entries(groups).map(([name, routes]) => h("section", {}, h("h2", {}, name), ...routes)));
}

show();
