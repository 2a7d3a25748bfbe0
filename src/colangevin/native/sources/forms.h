/* Which code moves which form. */

/* Move the elements from start to stop: whole rows where these move alone, one of which room is for. */
static void NAME(move_stretch)(const struct weight *w, int64_t start, int64_t stop, REAL *room)
{
    const int in_rows = w->form == SPHERE || w->form == SIMPLEX;
    if (w->program->adam && in_rows)
        NAME(move_rows_by_adam)(w, start / w->entries, stop / w->entries, room);
    else if (w->program->adam)
        NAME(move_by_adam)(w, start, stop);
    else if (in_rows)
        NAME(move_rows)(w, start / w->entries, stop / w->entries, room);
    else if (w->form == LEVEL)
        NAME(move_levels)(w, start / w->entries, stop / w->entries);
    else if (w->form == CIRCLE)
        NAME(move_angles)(w, start, stop);
    else if (w->form == SQUARE)
        NAME(move_roots)(w, start, stop);
    else
        NAME(move_lines)(w, start, stop);
}
