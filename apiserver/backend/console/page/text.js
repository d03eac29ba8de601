// The texts of the console in the user's language, and the formats of numbers and times in that language.
import english from "./text-en.js";
import german from "./text-de.js";

const catalogues = { en: english, de: german };

export const languages = [["en", "English"], ["de", "Deutsch"]];

let language = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => tag in catalogues) ?? "en";
document.documentElement.lang = language;

export const currentLanguage = () => language;

export function setLanguage(chosen) {
  language = chosen;
  document.documentElement.lang = chosen;
}

// t returns a text with its {names} replaced.
export function t(key, values) {
  const text = catalogues[language][key];
  return values ? text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole) : text;
}

export const number = (value) => new Intl.NumberFormat(language).format(value);

// change formats a percentage with its sign, to a tenth.
export const change = (value) =>
  new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1, signDisplay: "exceptZero" }).format(value / 100);

// moment returns a time in the user's time zone, with UTC as its title.
export function moment(text) {
  if (!text) {
    return t("common.never");
  }
  const time = document.createElement("time");
  time.dateTime = text;
  time.title = new Date(text).toISOString();
  time.textContent = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(new Date(text));
  return time;
}

export const clock = (date) => new Intl.DateTimeFormat(language, { timeStyle: "medium" }).format(date);

// day formats a UTC day such as "2026-05-10".
export const day = (text, style = "medium") => new Intl.DateTimeFormat(language, { dateStyle: style, timeZone: "UTC" }).format(new Date(text + "T00:00:00Z"));
