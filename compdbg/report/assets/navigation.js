/** Where the reader is in the page, and how they get to another place of it. */

const smooth = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

/** Bring a place to the top; a finding or a section takes the focus too. */
export function bringUp(node) {
  node.scrollIntoView({ behavior: smooth(), block: "start" });
  if (node.matches("article, section")) {
    node.setAttribute("tabindex", "-1");
    node.focus({ preventScroll: true });
  }
}

/** Mark what a link led to. */
export function light(node) {
  document.querySelectorAll(".lit").forEach((one) => one.classList.remove("lit"));
  if (node.matches("article, .near-miss")) node.classList.add("lit");
}

/** The section in sight is marked in the navigation. */
export function watchSections() {
  const links = new Map([...document.querySelectorAll("nav.side a")].map((a) => [a.hash.slice(1), a]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      const link = links.get(entry.target.id);
      link?.setAttribute("aria-current", "true");
      link?.parentElement.scrollTo({ left: link.offsetLeft - 60, top: link.offsetTop - 200 });
    }
  }, { rootMargin: "-70px 0px -75% 0px" });
  document.querySelectorAll("main > section").forEach((section) => watcher.observe(section));
}

/** From where the reader is to the next of its kind: what was reached last, else what stands at the top. */
export function nextPlace(selector, by) {
  const all = [...document.querySelectorAll(selector)];
  const focused = document.activeElement?.closest(selector);
  let at = all.indexOf(focused);
  if (at < 0) {
    at = all.filter((one) => one.getBoundingClientRect().top < 80).length - 1;
    if (by < 0) at += 1;
  }
  return all[Math.min(all.length - 1, Math.max(0, at + by))]?.id ?? null;
}
