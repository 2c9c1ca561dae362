"""Puts the routes of the desk under a prefix."""

from fastapi import APIRouter, FastAPI

from arap_service.web import (
    absence_pages,
    account,
    again,
    approval_pages,
    audit_pages,
    conversation_pages,
    delivery_pages,
    form_pages,
    login,
    not_found,
    notice_pages,
    own_pages,
    pages,
    password_pages,
    people_pages,
    preference_pages,
    provider_login,
    report_pages,
    request_pages,
    review_pages,
    rule_pages,
    several_pages,
    simulator_pages,
    static_files,
)


def install(routes: FastAPI | APIRouter, *, prefix: str = "") -> None:
    """Serve the desk under `prefix`; the application provides `app.state.context` and `app.state.gatekeeper`."""
    reviewing = (pages.router, request_pages.router, several_pages.router, conversation_pages.router)
    for router in (
        login.router,
        provider_login.router,
        again.router,
        account.router,
        password_pages.router,
        *reviewing,
        own_pages.router,
        preference_pages.router,
        approval_pages.router,
        delivery_pages.router,
        notice_pages.router,
        absence_pages.router,
        audit_pages.router,
        people_pages.router,
        report_pages.router,
        simulator_pages.router,
        form_pages.router,
        review_pages.router,
        rule_pages.router,
        static_files.router,
        not_found.router,
    ):
        routes.include_router(router, prefix=prefix)
