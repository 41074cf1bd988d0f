/* Looks at the page it runs in; see legible.py. */
({
  namelessControls: () => [...document.querySelectorAll("button, a[href], input, select, summary, [tabindex='0'], dialog[open]")]
  .filter((one) => one.checkVisibility())
  .filter((one) => {
    const labelled = (one.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("");
    const label = [...(one.labels ?? [])].map((label) => label.textContent).join("");
    return !(one.getAttribute("aria-label") || labelled || label || one.textContent).trim();
  }).map((one) => one.outerHTML),

  headingLevels: () => [...document.querySelectorAll("h1, h2, h3, h4")].filter((one) => one.checkVisibility())
  .map((one) => Number(one.tagName[1])),

  landmarks: () => Object.fromEntries(["header", "main", "footer", "nav"].map((tag) => [tag, document.querySelectorAll(tag).length])),

  texts: () => {
  const parse = (text) => (text.match(/rgba?\([^)]*\)/g) ?? []).map((one) => one.match(/[\d.]+/g).map(Number));
  const over = ([r, g, b, a = 1], under) => [r, g, b].map((value, at) => value * a + under[at] * (1 - a));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // All grounds that a text may stand on: where an ancestor has a gradient, each of its colours is one.
  const grounds = (node) => {
    const layers = [];
    for (let one = node; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      const colours = [...parse(style.backgroundColor), ...(style.backgroundImage.includes("gradient") ? parse(style.backgroundImage) : [])];
      layers.push(colours.filter((colour) => (colour[3] ?? 1) > 0));
      if (colours.some((colour) => (colour[3] ?? 1) === 1)) break;
    }
    let found = [[255, 255, 255]];
    for (const colours of layers.reverse()) if (colours.length) found = colours.flatMap((colour) => found.map((under) => over(colour, under)));
    return found;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.textContent.trim() || !node.checkVisibility() || node.closest(".unseen, svg, option, noscript, :disabled")) continue;
    const style = getComputedStyle(node);
    const contrasts = grounds(node).map((ground) => {
      const [one, other] = [luminance(over(parse(style.color)[0], ground)), luminance(ground)];
      return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    });
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    found.push({ text: text.textContent.trim().slice(0, 40), contrast: Math.min(...contrasts), isLarge });
  }
  return found;
},
})
