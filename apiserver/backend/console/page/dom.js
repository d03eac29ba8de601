// Construction of elements. Text becomes only text nodes: no markup is parsed, whatever a name contains.

const svgNames = "http://www.w3.org/2000/svg";

// add appends children to a parent: elements, text, or lists of them. It skips null and false.
export function add(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(child instanceof Node ? child : String(child));
    }
  }
  return parent;
}

// set sets attributes of an element. A function becomes a listener ("onclick"), true an attribute without a value; null and false are skipped.
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

// field returns a label with its control, and gives the control an id.
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

// table returns a table with columns of {label, cell(row), class}. On a narrow screen its rows look like cards, and ARIA roles keep it a
// table for screen readers.
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

// facts returns a list of names and values.
export const facts = (pairs) => h("dl", { class: "facts" }, pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));

export const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", null, title), children);

export const badge = (kind, text) => h("span", { class: "badge " + kind }, text);
