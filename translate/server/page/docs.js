// The page of the API, made from /openapi.json.

import { call } from "./api.js";
import { find, make } from "./elements.js";

const { paths, components } = await call("openapi.json");
const resolve = (schema) => components.schemas[schema.$ref?.split("/").at(-1)] ?? schema;
const alternatives = (schema) => (schema.anyOf ?? schema.oneOf ?? [schema]).map(resolve);
const code = (text) => make("code", {}, text);
const block = (text) => make("pre", {}, code(text));
/** A text in which the parts between backticks are code. */
const prose = (text = "") => text.split("`").map((part, place) => (place % 2 ? code(part) : part));

function typeOf({ type, items, enum: values, const: value, minimum, maximum }) {
  if (values ?? value) return (values ?? [value]).join(", ");
  if (type === "array") return `list of ${items ? typeOf(resolve(items)).replace(/^\w+/, "$&s") : "two numbers"}`;
  return minimum === undefined || maximum === undefined ? type : `${type} from ${minimum} to ${maximum}`;
}

/** The terms and descriptions of an object's keys, and of the keys of objects in it. */
function describeKeys({ properties = {}, required = [] }, before = "") {
  return Object.entries(properties).flatMap(([name, field]) => {
    const kinds = alternatives(field).filter(({ type }) => type !== "null");
    const notes = [[...new Set(kinds.map(typeOf))].join(" or "), ...(required.includes(name) || before ? [] : ["optional"])];
    const inside = kinds.map((kind) => [resolve(kind.items ?? kind), `${before}${name}${kind.items ? "[]" : ""}.`]);
    const term = make("dt", {}, code(before + name), ` ${notes.join(", ")}`);
    return [term, make("dd", {}, ...prose(field.description)), ...inside.flatMap((each) => describeKeys(...each))];
  });
}

/** An example of a schema: its own, or one of all keys; a request only has keys that it needs or that have examples. */
function exampleOf(schema, isRequest = false) {
  const { examples, type, items, properties = {}, required = [], default: value } = { ...resolve(schema), ...schema };
  if (examples) return examples[0];
  if (type === "array") return items.$ref ? [exampleOf(items)] : [];
  if (!type) return null;
  if (type !== "object") return value ?? { string: "", integer: 0, number: 0, boolean: false }[type];
  const isShown = ([name, field]) => !isRequest || required.includes(name) || field.examples;
  const wanted = Object.entries(properties).filter(isShown);
  return Object.fromEntries(wanted.map(([name, field]) => [name, exampleOf(field)]));
}

/** JSON with one key per line, and lists of plain values on one line. */
const print = (value) =>
  JSON.stringify(value, null, 2).replace(/\[[^[\]{}]*\]/g, (list) => list.replace(/\n\s*/g, "").replaceAll(",", ", "));

for (const [path, methods] of Object.entries(paths)) {
  const ordered = Object.entries(methods).sort(([one], [other]) => (other === "post") - (one === "post")); // what is made first
  for (const [method, { description, requestBody, responses }] of ordered) {
    const [, { content = {} }] = Object.entries(responses).find(([status]) => status.startsWith("2"));
    const { schema = {}, example } = Object.values(content).at(-1) ?? {};
    const questions = requestBody ? alternatives(requestBody.content["application/json"].schema) : [{}];
    const parts = questions.flatMap((question, index) => {
      const sent = requestBody ? ` --json '${print(exampleOf(question, true)).replace(/\n\s*/g, " ")}'` : "";
      const how = ["get", "post"].includes(method) ? "" : `--request ${method.toUpperCase()} `;
      const answer = alternatives(schema)[index] ?? {};
      const [given, found] = [describeKeys(question), describeKeys(answer)];
      return [
        ...(given.length ? [make("h3", {}, `Request: ${question.description}`), make("dl", {}, ...given)] : []),
        make("h3", {}, "Example"),
        block(`curl ${how}${decodeURI(new URL(path.slice(1), location.href))}${sent}`),
        ...(Object.keys(content).length ? [block(typeof example === "string" ? example : print(example ?? exampleOf(answer)))] : []),
        ...(found.length ? [make("h3", {}, "Answer"), make("dl", {}, ...found)] : []),
      ];
    });
    const heading = make("h2", {}, make("small", {}, method.toUpperCase()), " ", code(path));
    const about = make("p", {}, ...prose(description));
    const id = method === ordered[0][0] ? path : `${method} ${path}`;
    find("main").append(make("section", { className: "card", id }, heading, about, ...parts));
    find("nav").append(make("a", { href: `#${id}` }, heading.textContent));
  }
}
