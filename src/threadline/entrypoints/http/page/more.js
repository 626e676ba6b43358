// Where there is no room for all places in the bar: those that are left, in a list.

import { h, icon } from "./dom.js";

/** `places` are `[name, label, drawing, about]`. */
export class More {
  constructor(places) {
    this.element = h("div.sheet", null, h("header", null, h("h1", null, "More")),
      h("ul.more-places", null, places.map(([name, label, drawing, about]) => h("li", null,
        h("a", { href: `#/${name}` }, icon(drawing), h("span", null, h("strong", null, label), h("small", null, about)))))));
  }

  open() {}

  close() {}
}
