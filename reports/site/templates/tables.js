// Below each table: buttons that copy what is shown of it as Markdown or CSV.
(function () {
  "use strict";
  function cells(table) {
    const shown = (element) => element.offsetParent !== null;
    return Array.from(table.rows).filter(shown).map((row) =>
      Array.from(row.cells).filter(shown).map((cell) => cell.innerText.replace(/\s+/g, " ").trim()));
  }

  function markdown(rows) {
    const line = (row) => "| " + row.map((cell) => cell.replace(/[\\`*[\]|<>~#]/g, "\\$&")).join(" | ") + " |";
    return [line(rows[0]), "|" + " --- |".repeat(rows[0].length), ...rows.slice(1).map(line), ""].join("\n");
  }

  // A spreadsheet would compute what begins like a formula.
  function csv(rows) {
    const cell = (text) => '"' + text.replace(/^[=@]|^[+-](?![\d.]+$)/, "'$&").replace(/"/g, '""') + '"';
    return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
  }

  function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done ? Promise.resolve() : Promise.reject(new Error());
  }

  function offer(table) {
    const line = document.createElement("p"), said = document.createElement("span");
    line.className = "copy";
    said.setAttribute("role", "status");
    for (const [name, form] of [["Markdown", markdown], ["CSV", csv]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Copy as " + name;
      button.setAttribute("aria-label", "Copy as " + name + ": " + table.parentElement.getAttribute("aria-label"));
      button.addEventListener("click", () => copy(form(cells(table))).then(
        () => { said.textContent = "copied as " + name; }, () => { said.textContent = "the browser does not let this page copy"; }));
      line.append(button, " ");
    }
    line.append(said);
    table.parentElement.after(line);
  }

  document.querySelectorAll(".scroll > table").forEach(offer);
  window.cnibenchCopy = offer; // for tables that a script makes later
})();
