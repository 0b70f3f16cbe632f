// Runs before the page is drawn, so that a chosen theme does not flash up in the other colours.
const chosenTheme = localStorage.getItem("theme");
if (chosenTheme) document.documentElement.dataset.theme = chosenTheme;
