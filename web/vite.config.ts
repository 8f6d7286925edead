// Built into the package folder, where the gateway serves it. Nothing is inlined: the policy allows no data: scripts.
import { defineConfig } from "vitest/config";
import preact from "@preact/preset-vite";

export default defineConfig({
  plugins: [preact({ devToolsEnabled: false })],
  build: {
    outDir: "../src/fairlead/web_dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
    rollupOptions: {
      // The service worker has one name for ever: it is asked for by it.
      input: { main: "index.html", sw: "src/sw.ts" },
      output: { entryFileNames: ({ name }) => (name === "sw" ? "sw.js" : "assets/[name]-[hash].js") },
    },
  },
  test: { environment: "node", include: ["tests/**/*.test.ts"] },
});
