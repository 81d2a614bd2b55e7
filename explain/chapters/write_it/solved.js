// Which puzzles this browser's reader has solved. What the server's session knows is kept here; what it does not know
// yet is told to it. data: {solved: JSON of {name: [ISO date, answer]}, puzzles: JSON of [name]}

const KEPT = "tilescope: solved puzzles";

function kept() {
  try { return JSON.parse(localStorage.getItem(KEPT)) ?? {}; } catch { return {}; }   // no storage, or not ours
}

export default function ({ data, setTriggerValue }) {
  const known = JSON.parse(data.solved), before = kept(), all = { ...before, ...known };
  try { localStorage.setItem(KEPT, JSON.stringify(all)); } catch { /* private windows have no storage */ }
  if (JSON.parse(data.puzzles).some((name) => before[name] && !known[name])) setTriggerValue("remembered", before);
}
