/* Which code moves which form. */

/* Move the elements from start to stop: whole rows where these move alone, one of which room is for. */
static void NAME(move_stretch)(const struct weight *w, int64_t start, int64_t stop, REAL *room)
{
    if (w->form == SPHERE || w->form == SIMPLEX)
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
