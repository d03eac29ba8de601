// Builds what is shown. Text becomes text nodes and nothing else: no markup is ever parsed, whatever a name holds.

const svgNames = "http://www.w3.org/2000/svg";

// add puts children into a parent: elements, text, lists of them; null and false are nothing.
export function add(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(child instanceof Node ? child : String(child));
    }
  }
  return parent;
}

// set gives an element attributes. A function is a listener ("onclick"); true is an attribute without a value; null and false are none.
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  return element;
}

export const h = (tag, attributes, ...children) => add(set(document.createElement(tag), attributes), children);
export const svg = (tag, attributes, ...children) => add(set(document.createElementNS(svgNames, tag), attributes), children);

let made = 0;
export const newID = () => "e" + ++made;

// field is a label with its control, which gets an id.
export function field(label, control, hint) {
  control.id ||= newID();
  const parts = [h("label", { for: control.id }, label), control];
  if (hint) {
    const note = h("p", { class: "hint faint", id: newID() }, hint);
    control.setAttribute("aria-describedby", note.id);
    parts.push(note);
  }
  return h("div", { class: "field" }, parts);
}

// table has columns of {label, cell(row), class}. On a narrow screen its rows are cards; the roles say that it is a table all the same.
export function table(caption, columns, rows) {
  const head = columns.map((column) => h("th", { scope: "col", role: "columnheader", class: column.class }, column.label));
  const body = rows.map((row) =>
    h("tr", { role: "row" }, columns.map((column) =>
      h("td", { role: "cell", class: column.class, "data-label": column.label }, h("div", null, column.cell(row))))));
  return h("table", { role: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    h("tbody", { role: "rowgroup" }, body));
}

// facts is a list of names with what they are.
export const facts = (pairs) => h("dl", { class: "facts" }, pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));

export const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", null, title), children);

export const badge = (kind, text) => h("span", { class: "badge " + kind }, text);
